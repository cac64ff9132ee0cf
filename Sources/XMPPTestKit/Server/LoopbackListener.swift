import Platform
import XMPPTransport

/// Listens on a reserved port.
final class LoopbackListener: Sendable {
    /// Whether TLS starts with the first byte.
    let isDirectTLS: Bool
    private let socket: StreamSocket

    /// The number of connections that wait to be accepted.
    private static let backlog: Int32 = 1024

    init(_ port: LoopbackPort, isDirectTLS: Bool) throws(ScriptedServerError) {
        self.isDirectTLS = isDirectTLS
        do throws(Errno) {
            socket = try StreamSocket.listening(
                atLoopback: port.number, at: port.address, backlog: Self.backlog)
        } catch {
            throw ScriptedServerError(
                .port,
                "Port \(port.number) cannot be listened on (\(error)); make a new server.")
        }
    }

    deinit { socket.shutdownBoth() }

    /// The descriptor, for poll(2).
    var fileDescriptor: Int32 { socket.descriptor }

    /// A waiting connection, nil when none waits.
    func accept() throws -> Connection? {
        try Socket.accept(from: socket.descriptor).map { Connection(socket: $0) }
    }
}
