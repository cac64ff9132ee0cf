import Glibc

/// One address a host name stands for, ready for connect(2).
struct SocketAddress: Hashable, Sendable {
    /// The bytes of the `sockaddr_in` or `sockaddr_in6`.
    private let bytes: [UInt8]
    /// `AF_INET` or `AF_INET6`.
    let family: Int32
    /// The address as people write it: `192.0.2.1`, `2001:db8::1`.
    let text: String

    init(_ info: addrinfo) {
        self.init(info.ai_addr, length: info.ai_addrlen, family: info.ai_family)
    }

    init(_ address: UnsafePointer<sockaddr>, length: socklen_t, family: Int32) {
        self.family = family
        bytes = Array(UnsafeRawBufferPointer(start: address, count: Int(length)))
        text = withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(NI_MAXHOST)) { name in
            let result = getnameinfo(
                address, length, name.baseAddress, socklen_t(name.count), nil, 0, NI_NUMERICHOST
            )
            return result == 0 ? String(cString: name.baseAddress!) : "?"
        }
    }

    /// Whether the text is an IP address.
    static func isNumeric(_ text: String) -> Bool {
        var v4 = in_addr()
        var v6 = in6_addr()
        return inet_pton(AF_INET, text, &v4) == 1 || inet_pton(AF_INET6, text, &v6) == 1
    }

    /// Begins to connect `descriptor`: 0, or the error number (EINPROGRESS for a non-blocking socket).
    func beginConnecting(_ descriptor: Int32) -> Int32 {
        bytes.withUnsafeBytes { raw in
            raw.withMemoryRebound(to: sockaddr.self) { address in
                connect(descriptor, address.baseAddress, socklen_t(raw.count)) == 0 ? 0 : errno
            }
        }
    }

    /// The families in turn, beginning with that of the first address (RFC 8305 section 4): one family that
    /// leads nowhere then costs one attempt, not all of its addresses.
    static func interleaved(_ addresses: [SocketAddress]) -> [SocketAddress] {
        guard let first = addresses.first else { return [] }
        let preferred = addresses.filter { $0.family == first.family }
        let others = addresses.filter { $0.family != first.family }
        return (0..<max(preferred.count, others.count)).flatMap { index in
            [preferred, others].compactMap { index < $0.count ? $0[index] : nil }
        }
    }
}
