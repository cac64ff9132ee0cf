#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The machine's own ways to resolve a name (getaddrinfo(3)).
package enum NameLookup {
    /// The reason why a name has no addresses.
    package struct Failure: Error, Hashable, Sendable, CustomStringConvertible {
        private let code: Int32
        private let systemError: Errno?

        /// EAI_NODATA, which glibc declares only under _GNU_SOURCE: the name exists, but has no address.
        #if canImport(Darwin)
            private static let noAddress = EAI_NODATA
        #else
            private static let noAddress: Int32 = -5
        #endif

        package static var noName: Failure { Failure(code: EAI_NONAME) }
        package static var tryAgain: Failure { Failure(code: EAI_AGAIN) }
        package static var failed: Failure { Failure(code: EAI_FAIL) }

        init(code: Int32) {
            self.code = code
            systemError = code == EAI_SYSTEM ? .current : nil
        }

        /// Whether there is no such name, or none with an address.
        package var isNoName: Bool { code == EAI_NONAME || code == Self.noAddress }

        /// The system's words.
        package var description: String { systemError?.detail ?? String(cString: gai_strerror(code)) }
    }

    /// Returns the addresses of a host, in the system's order. Blocks for as long as the system's resolver waits.
    ///
    /// - Parameter isNumeric: Whether only an IP address is meant, for which no name server is asked.
    package static func addresses(
        of name: String, port: UInt16, isNumeric: Bool = false
    ) throws(Failure) -> [SocketAddress] {
        var hints = addrinfo()
        #if canImport(Darwin)
            hints.ai_socktype = SOCK_STREAM
        #else
            hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        #endif
        hints.ai_flags = (isNumeric ? AI_NUMERICHOST : 0) | AI_NUMERICSERV
        var list: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(name, "\(port)", &hints, &list)
        guard code == 0 else { throw Failure(code: code) }
        defer { freeaddrinfo(list) }
        return sequence(first: list) { $0?.pointee.ai_next }.prefix { $0 != nil }.map { entry in
            let entry = entry!.pointee
            return SocketAddress(UnsafeRawBufferPointer(start: entry.ai_addr, count: Int(entry.ai_addrlen)))
        }
    }
}
