import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A non-blocking stream socket; closed when the last reference to it goes.
///
/// No call raises SIGPIPE, and no program that this process starts inherits the descriptor.
package final class StreamSocket: Sendable {
    /// The descriptor, for poll(2).
    package let descriptor: Int32

    private init(owning descriptor: Int32) { self.descriptor = descriptor }

    /// Takes over an open descriptor. When it is no socket, it is closed.
    package convenience init(adopting descriptor: Int32) throws(Errno) {
        self.init(owning: descriptor)
        guard dh_prepare_socket(descriptor) == 0 else { throw Errno.current }
    }

    /// Makes a socket of an address family.
    package convenience init(family: Int32) throws(Errno) {
        let descriptor = dh_socket(family)
        guard descriptor >= 0 else { throw Errno.current }
        self.init(owning: descriptor)
    }

    // Not repeated after EINTR: the descriptor is gone either way, and may already be somebody else's.
    deinit { close(descriptor) }

    /// Returns two sockets connected to each other.
    package static func pair() throws(Errno) -> (StreamSocket, StreamSocket) {
        var ends: [Int32] = [-1, -1]
        guard dh_socket_pair(&ends) == 0 else { throw Errno.current }
        return (StreamSocket(owning: ends[0]), StreamSocket(owning: ends[1]))
    }

    /// Accepts a waiting connection of a listening descriptor; nil when none waits.
    package static func accept(from listener: Int32) throws(Errno) -> StreamSocket? {
        let accepted = dh_accept(listener)
        if accepted >= 0 { return StreamSocket(owning: accepted) }
        let error = Errno.current
        if [EAGAIN, EINTR, ECONNABORTED].contains(error.rawValue) { return nil }
        throw error
    }

    // MARK: - Connecting

    /// Starts to connect.
    ///
    /// - Returns: False while the connection is being made; the socket is writable once ``takeError()`` knows how it went.
    package func connect(to address: SocketAddress) throws(Errno) -> Bool {
        if address.withAddress({ systemConnect(descriptor, $0, $1) }) == 0 { return true }
        let error = Errno.current
        guard [EINPROGRESS, EINTR].contains(error.rawValue) else { throw error }
        return false
    }

    /// Throws the reason for which connecting failed, or for which the connection broke.
    package func checkError() throws(Errno) {
        var number: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        guard getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &number, &size) == 0 else { throw Errno.current }
        guard number == 0 else { throw Errno(rawValue: number) }
    }

    // MARK: - Receiving and sending

    /// Reads what is there, at most `buffer.count` bytes.
    ///
    /// - Returns: How many bytes; 0 when the other side has closed; nil when nothing is there.
    package func receive(into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int? {
        while true {
            let count = recv(descriptor, buffer.baseAddress, buffer.count, 0)
            if count >= 0 { return count }
            let error = Errno.current
            if error == .interrupted { continue }
            if error == .wouldBlock { return nil }
            throw error
        }
    }

    /// Sends as much of `bytes` as the system takes now.
    ///
    /// - Returns: How many bytes; 0 when it takes none.
    package func send(_ bytes: UnsafeRawBufferPointer) throws(Errno) -> Int {
        while true {
            let count = systemSend(descriptor, bytes)
            if count >= 0 { return count }
            let error = Errno.current
            if error == .interrupted { continue }
            if error == .wouldBlock { return 0 }
            throw error
        }
    }

    /// Whether bytes wait to be read, without taking them.
    package var hasArrivedBytes: Bool {
        var byte: UInt8 = 0
        return recv(descriptor, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) > 0
    }

    /// Says that nothing more will be written; reading goes on.
    package func shutdownWriting() { _ = shutdown(descriptor, Int32(SHUT_WR)) }

    // MARK: - TCP

    // Each of them fails harmlessly on a Unix socket.

    /// Sends small writes at once instead of waiting for more (Nagle's algorithm, RFC 896).
    package func sendAtOnce() { set(TCP_NODELAY, UInt32(1)) }

    /// Whether the other side's system has acknowledged everything that was sent (SIOCOUTQ of tcp(7); SO_NWRITE on Darwin).
    package var isDelivered: Bool {
        var left: Int32 = 0
        #if canImport(Darwin)
            var size = socklen_t(MemoryLayout<Int32>.size)
            return getsockopt(descriptor, SOL_SOCKET, SO_NWRITE, &left, &size) == 0 && left == 0
        #else
            return ioctl(descriptor, UInt(TIOCOUTQ), &left) == 0 && left == 0
        #endif
    }

    /// Breaks the connection when bytes stay without acknowledgement for so long (TCP_USER_TIMEOUT of tcp(7)), on Darwin in whole
    /// seconds.
    package func limitUnacknowledged(toMilliseconds limit: Int64) {
        #if canImport(Darwin)
            set(TCP_RXT_CONNDROPTIME, UInt32(clamping: limit / 1000 + (limit % 1000 > 0 ? 1 : 0)))
        #else
            set(TCP_USER_TIMEOUT, UInt32(clamping: limit))
        #endif
    }

    /// Acknowledges what has arrived at once, where the system would wait up to 40 ms for something to send with it.
    ///
    /// The system forgets the wish, so it is made before each wait (tcp(7)). Darwin has no such wish.
    package func acknowledgeAtOnce() {
        #if !canImport(Darwin) && !DH_KQUEUE
            set(TCP_QUICKACK, UInt32(1))
        #endif
    }

    private func set(_ option: Int32, _ value: UInt32) {
        var value = value
        _ = setsockopt(descriptor, Int32(IPPROTO_TCP), option, &value, socklen_t(MemoryLayout<UInt32>.size))
    }
}
