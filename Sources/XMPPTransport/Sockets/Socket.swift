import COpenSSL
import Glibc

/// Owns one non-blocking stream socket; closes it when dropped.
///
/// SIGPIPE never arises: every write is `send(2)` with MSG_NOSIGNAL, and OpenSSL never touches the descriptor
/// (it works on memory buffers, see ``TLSSession``). So the library leaves the process's signal settings
/// alone.
///
/// Not `Sendable`: one thread at a time uses it.
package final class Socket {
    /// The descriptor, for poll(2); -1 once closed.
    package private(set) var fileDescriptor: Int32
    /// The other side in words, for error messages: `example.org port 5222 (192.0.2.1)`.
    package let peer: String

    /// What a read gave.
    enum Received: Equatable {
        case bytes(Int), wouldBlock, closed
    }

    /// Takes over an open descriptor, for instance one that `accept` or `socketpair` gave.
    ///
    /// - Throws: `TransportError.Code.systemFailure` when it is not a socket; the descriptor is then closed.
    package init(adopting fileDescriptor: Int32, peer: String) throws(TransportError) {
        self.fileDescriptor = fileDescriptor
        self.peer = peer
        let flags = fcntl(fileDescriptor, F_GETFL)
        guard flags >= 0, fcntl(fileDescriptor, F_SETFL, flags | O_NONBLOCK) >= 0,
            fcntl(fileDescriptor, F_SETFD, FD_CLOEXEC) >= 0
        else {
            let number = errno
            throw TransportError(
                .systemFailure, "The descriptor for \(peer) is not usable.", cause: systemErrorText(number))
        }
        // Stanzas are small and are flushed in batches, so waiting for more (Nagle) only adds latency. Fails
        // harmlessly on a Unix socket pair.
        var on: Int32 = 1
        _ = setsockopt(
            fileDescriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
    }

    deinit { close() }

    /// Closes the descriptor. Further calls do nothing.
    package func close() {
        guard fileDescriptor >= 0 else { return }
        // Not repeated after EINTR: on Linux the descriptor is gone either way, and may already be somebody
        // else's.
        _ = Glibc.close(fileDescriptor)
        fileDescriptor = -1
    }

    /// Two sockets connected to each other, for tests and for waking a poll.
    package static func pair() throws(TransportError) -> (Socket, Socket) {
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw creationFailure(errno) }
        let first = try Socket(adopting: ends[0], peer: "a socket pair")
        return (first, try Socket(adopting: ends[1], peer: "a socket pair"))
    }

    /// Accepts a waiting connection of a listening descriptor; nil when none waits.
    package static func accept(from listener: Int32) throws(TransportError) -> Socket? {
        let accepted = dh_accept(listener)
        if accepted >= 0 { return try Socket(adopting: accepted, peer: "a client") }
        let number = errno
        if [EAGAIN, EINTR, ECONNABORTED].contains(number) { return nil }
        throw TransportError(
            .systemFailure, "Accepting a connection failed.", cause: systemErrorText(number))
    }

    /// Reads what is there, at most `buffer.count` bytes.
    func receive(into buffer: UnsafeMutableRawBufferPointer) throws(TransportError) -> Received {
        while true {
            let count = recv(fileDescriptor, buffer.baseAddress, buffer.count, 0)
            if count > 0 { return .bytes(count) }
            if count == 0 { return .closed }
            let number = errno
            if number == EINTR { continue }
            if number == EAGAIN { return .wouldBlock }
            throw broken(number)
        }
    }

    /// Sends as much of `bytes` as the system takes now; 0 when it takes nothing.
    func send(_ bytes: UnsafeRawBufferPointer) throws(TransportError) -> Int {
        while true {
            let count = Glibc.send(fileDescriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
            if count >= 0 { return count }
            let number = errno
            if number == EINTR { continue }
            if number == EAGAIN { return 0 }
            throw broken(number)
        }
    }

    /// Whether bytes (or the end of the stream) wait to be read, without taking them.
    func hasArrivedBytes() -> Bool {
        var byte: UInt8 = 0
        return recv(fileDescriptor, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT)) > 0
    }

    /// Whether the other side's system has acknowledged everything that was sent (SIOCOUTQ of tcp(7)).
    var isDelivered: Bool {
        var left: Int32 = 0
        return ioctl(fileDescriptor, UInt(TIOCOUTQ), &left) == 0 && left == 0
    }

    /// Breaks the connection when bytes stay without acknowledgement for so long (TCP_USER_TIMEOUT of tcp(7)). Fails
    /// harmlessly on a Unix socket pair.
    func limitUnacknowledged(toMilliseconds limit: Int64) {
        var limit = UInt32(clamping: limit)
        _ = setsockopt(
            fileDescriptor, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &limit,
            socklen_t(MemoryLayout<UInt32>.size))
    }

    /// Acknowledges what has arrived at once, where the system would wait up to 40 ms for something to send with it.
    ///
    /// A peer with Nagle's algorithm (RFC 896), such as Prosody, keeps the rest of its answer back until then. The system
    /// forgets the wish, so it is made before each wait (tcp(7)).
    func acknowledgeAtOnce() {
        var on: Int32 = 1
        _ = setsockopt(
            fileDescriptor, Int32(IPPROTO_TCP), TCP_QUICKACK, &on, socklen_t(MemoryLayout<Int32>.size))
    }

    /// Says that nothing more will be written; reading goes on.
    func shutdownWriting() { _ = shutdown(fileDescriptor, Int32(SHUT_WR)) }

    private func broken(_ number: Int32) -> TransportError {
        switch number {
        case EBADF:
            TransportError(.notConnected, "The connection to \(peer) is already closed; make a new one.")
        case ETIMEDOUT:
            TransportError(
                .connectionReset,
                "The connection to \(peer) broke because "
                    + "the peer stopped answering; reconnect.",
                cause: systemErrorText(number))
        case ECONNRESET, EPIPE:
            TransportError(
                .connectionReset, "The connection to \(peer) was broken off by the other side; reconnect.",
                cause: systemErrorText(number))
        case EHOSTUNREACH, ENETUNREACH, ENETDOWN, EHOSTDOWN:
            TransportError(
                .unreachable, "The network no longer reaches \(peer); reconnect when it does.",
                cause: systemErrorText(number))
        default:
            TransportError(
                .systemFailure,
                "The connection to \(peer) failed; "
                    + "reconnect.", cause: systemErrorText(number))
        }
    }

    static func creationFailure(_ number: Int32) -> TransportError {
        TransportError(
            .systemFailure,
            "No socket could be made; close other connections or raise "
                + "the limit of open files.",
            cause: systemErrorText(number))
    }
}
