package import Platform

/// Owns one non-blocking stream socket; closes it when dropped.
///
/// SIGPIPE never arises, for OpenSSL never touches the descriptor (it works on memory buffers, see ``TLSSession``). So the
/// library leaves the process's signal settings alone.
///
/// Not `Sendable`: one thread at a time uses it.
package final class Socket: ByteStream {
    /// Nil once closed.
    private var handle: StreamSocket?
    package let peer: String

    package init(_ handle: StreamSocket, peer: String) {
        self.handle = handle
        self.peer = peer
        // Stanzas are small and are flushed in batches, so waiting for more only adds latency.
        handle.sendAtOnce()
    }

    package var fileDescriptor: Int32 { handle?.descriptor ?? -1 }

    package func close() { handle = nil }

    /// Accepts a waiting connection of a listening descriptor; nil when none waits.
    package static func accept(from listener: Int32) throws(TransportError) -> Socket? {
        do throws(Errno) {
            return try StreamSocket.accept(from: listener).map { Socket($0, peer: "a client") }
        } catch {
            throw TransportError(.systemFailure, "Accepting a connection failed.", cause: error.detail)
        }
    }

    package func receive(into buffer: UnsafeMutableRawBufferPointer) throws(TransportError) -> ByteStreamRead
    {
        do throws(Errno) {
            guard let handle else { throw .badDescriptor }
            guard let count = try handle.receive(into: buffer) else { return .wouldBlock }
            return count == 0 ? .closed : .bytes(count)
        } catch { throw broken(error) }
    }

    package func send(_ bytes: UnsafeRawBufferPointer) throws(TransportError) -> Int {
        do throws(Errno) {
            guard let handle else { throw .badDescriptor }
            return try handle.send(bytes)
        } catch { throw broken(error) }
    }

    package func hasArrivedBytes() -> Bool { handle?.hasArrivedBytes ?? false }

    package var isDelivered: Bool { handle?.isDelivered ?? false }

    package func limitUnacknowledged(toMilliseconds limit: Int64) {
        handle?.limitUnacknowledged(toMilliseconds: limit)
    }

    package func acknowledgeAtOnce() { handle?.acknowledgeAtOnce() }

    package func shutdownWriting() { handle?.shutdownWriting() }

    private func broken(_ error: Errno) -> TransportError {
        switch error {
        case .badDescriptor:
            TransportError(.notConnected, "The connection to \(peer) is already closed; make a new one.")
        case .timedOut:
            TransportError(
                .connectionReset,
                "The connection to \(peer) broke because the peer stopped answering; reconnect.",
                cause: error.detail)
        case .connectionReset, .brokenPipe:
            TransportError(
                .connectionReset, "The connection to \(peer) was broken off by the other side; reconnect.",
                cause: error.detail)
        case .hostUnreachable, .networkUnreachable, .networkDown, .hostDown:
            TransportError(
                .unreachable, "The network no longer reaches \(peer); reconnect when it does.",
                cause: error.detail)
        default:
            TransportError(
                .systemFailure,
                "The connection to \(peer) failed; reconnect.", cause: error.detail)
        }
    }

    static func creationFailure(_ error: Errno) -> TransportError {
        TransportError(
            .systemFailure,
            "No socket could be made; close other connections or raise the limit of open files.",
            cause: error.detail)
    }
}
