#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// An address of a host, ready for connect(2).
package struct SocketAddress: Hashable, Sendable {
    /// The bytes of the `sockaddr_in` or `sockaddr_in6`.
    private let bytes: [UInt8]
    /// `AF_INET` or `AF_INET6`.
    package let family: Int32
    /// The address as people write it: `192.0.2.1`, `2001:db8::1`.
    package let text: String

    /// - Parameter bytes: A `sockaddr_in` or `sockaddr_in6`.
    package init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = Array(bytes)
        guard bytes.count >= MemoryLayout<sockaddr>.size, let start = bytes.baseAddress else {
            (family, text) = (AF_UNSPEC, "?")
            return
        }
        let address = start.assumingMemoryBound(to: sockaddr.self)
        family = Int32(address.pointee.sa_family)
        text = Self.text(address, socklen_t(bytes.count))
    }

    /// 127.0.0.1, as ``init(version4:port:)`` takes it.
    package static let loopback: UInt32 = 0x7F00_0001

    /// - Parameter version4: The four bytes of an address of IPv4, the first one highest.
    init(version4 number: UInt32, port: UInt16) {
        var address = sockaddr_in()
        #if canImport(Darwin)
            address.sin_len = UInt8(MemoryLayout<sockaddr_in>.size)
        #endif
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = number.bigEndian
        self = withUnsafeBytes(of: &address) { SocketAddress($0) }
    }

    private static func text(_ address: UnsafePointer<sockaddr>, _ length: socklen_t) -> String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(NI_MAXHOST)) { name in
            let result = getnameinfo(
                address, length, name.baseAddress, socklen_t(name.count), nil, 0, NI_NUMERICHOST
            )
            return result == 0 ? String(cString: name.baseAddress!) : "?"
        }
    }

    /// Returns whether the text is an IP address.
    package static func isNumeric(_ text: String) -> Bool {
        var v4 = in_addr()
        var v6 = in6_addr()
        return inet_pton(AF_INET, text, &v4) == 1 || inet_pton(AF_INET6, text, &v6) == 1
    }

    /// The address without port and scope: 4 bytes of IPv4, 16 of IPv6, none of another family.
    var hostBytes: [UInt8] {
        bytes.withUnsafeBytes { raw in
            switch family {
            case AF_INET where raw.count >= MemoryLayout<sockaddr_in>.size:
                withUnsafeBytes(of: raw.loadUnaligned(as: sockaddr_in.self).sin_addr) { Array($0) }
            case AF_INET6 where raw.count >= MemoryLayout<sockaddr_in6>.size:
                withUnsafeBytes(of: raw.loadUnaligned(as: sockaddr_in6.self).sin6_addr) { Array($0) }
            default: []
            }
        }
    }

    /// Lends it to a system call.
    func withAddress(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        bytes.withUnsafeBytes { raw in
            raw.withMemoryRebound(to: sockaddr.self) { body($0.baseAddress!, socklen_t(raw.count)) }
        }
    }
}
