#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// TCP sockets of 127.0.0.1, or of another address of this machine, for servers in tests.
extension StreamSocket {
    /// Binds a socket to a port; others may bind and listen beside it (SO_REUSEADDR).
    ///
    /// - Parameters:
    ///   - port: 0 for a free one, see ``port``.
    ///   - address: The four bytes of an address of IPv4, the first one highest.
    package static func bound(
        toLoopback port: UInt16, at address: UInt32 = SocketAddress.loopback
    ) throws(Errno) -> StreamSocket {
        let socket = try StreamSocket(family: AF_INET)
        var on: Int32 = 1
        setsockopt(socket.descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
        let result = SocketAddress(version4: address, port: port).withAddress {
            bind(socket.descriptor, $0, $1)
        }
        guard result == 0 else { throw Errno.current }
        return socket
    }

    /// Listens at a port.
    ///
    /// - Parameter backlog: How many connections may wait to be accepted.
    package static func listening(
        atLoopback port: UInt16, at address: UInt32 = SocketAddress.loopback, backlog: Int32
    ) throws(Errno) -> StreamSocket {
        let socket = try bound(toLoopback: port, at: address)
        guard listen(socket.descriptor, backlog) == 0 else { throw Errno.current }
        return socket
    }

    /// Starts to connect to a port; ``checkError()`` says how it went once the socket is writable.
    package static func connecting(toLoopback port: UInt16) throws(Errno) -> StreamSocket {
        let socket = try StreamSocket(family: AF_INET)
        _ = try socket.connect(to: SocketAddress(version4: SocketAddress.loopback, port: port))
        return socket
    }

    /// The port that the socket is bound to.
    package var port: UInt16 {
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        withUnsafeMutablePointer(to: &address) { pointer in
            _ = pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                getsockname(descriptor, $0, &size)
            }
        }
        return UInt16(bigEndian: address.sin_port)
    }

    /// Ends both directions, or listening, at once.
    ///
    /// A program that is being started holds copies of all descriptors until its exec, so closing alone would not.
    package func shutdownBoth() { _ = shutdown(descriptor, Int32(SHUT_RDWR)) }

    /// Makes the close of a socket a reset (SO_LINGER).
    package static func resetOnClose(_ descriptor: Int32) {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// Says on a socket that nothing more will be written; reading goes on.
    package static func shutdownWriting(_ descriptor: Int32) { _ = shutdown(descriptor, Int32(SHUT_WR)) }

    /// Reads and drops what has arrived on a socket, at most 4 MiB.
    package static func drain(_ descriptor: Int32) {
        withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 1) { buffer in
            for _ in 0..<64 {
                guard recv(descriptor, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT)) > 0 else {
                    return
                }
            }
        }
    }
}
