import CPlatform
import Glibc

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
        let flags = fcntl(descriptor, F_GETFL)
        guard flags >= 0, fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) >= 0,
            fcntl(descriptor, F_SETFD, FD_CLOEXEC) >= 0
        else { throw Errno.current }
    }

    /// Makes a socket of an address family.
    package convenience init(family: Int32) throws(Errno) { self.init(owning: try Self.opened(family)) }

    // Not repeated after EINTR: on Linux the descriptor is gone either way, and may already be somebody else's.
    deinit { close(descriptor) }

    private static func opened(_ family: Int32) throws(Errno) -> Int32 {
        let kind = SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
        let descriptor = socket(family, Int32(kind), 0)
        guard descriptor >= 0 else { throw Errno.current }
        return descriptor
    }

    /// Returns two sockets connected to each other.
    package static func pair() throws(Errno) -> (StreamSocket, StreamSocket) {
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw Errno.current }
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
        if address.withAddress({ Glibc.connect(descriptor, $0, $1) }) == 0 { return true }
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
            let count = Glibc.send(descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
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

    /// Whether the other side's system has acknowledged everything that was sent (SIOCOUTQ of tcp(7)).
    package var isDelivered: Bool {
        var left: Int32 = 0
        return ioctl(descriptor, UInt(TIOCOUTQ), &left) == 0 && left == 0
    }

    /// Breaks the connection when bytes stay without acknowledgement for so long (TCP_USER_TIMEOUT of tcp(7)).
    package func limitUnacknowledged(toMilliseconds limit: Int64) {
        set(TCP_USER_TIMEOUT, UInt32(clamping: limit))
    }

    /// Acknowledges what has arrived at once, where the system would wait up to 40 ms for something to send with it.
    ///
    /// The system forgets the wish, so it is made before each wait (tcp(7)).
    package func acknowledgeAtOnce() { set(TCP_QUICKACK, UInt32(1)) }

    private func set(_ option: Int32, _ value: UInt32) {
        var value = value
        _ = setsockopt(descriptor, Int32(IPPROTO_TCP), option, &value, socklen_t(MemoryLayout<UInt32>.size))
    }
}
