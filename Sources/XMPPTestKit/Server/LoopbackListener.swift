import Glibc
import XMPPTransport

/// Listens on a reserved port of 127.0.0.1.
final class LoopbackListener: Sendable {
    /// Whether TLS begins with the first byte.
    let isDirectTLS: Bool
    private let descriptor: FileDescriptor

    /// The number of connections that wait to be accepted.
    private static let backlog: Int32 = 1024

    init(_ port: LoopbackPort, isDirectTLS: Bool) throws(ScriptedServerError) {
        self.isDirectTLS = isDirectTLS
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let number = socket(AF_INET, kind, 0)
        guard number >= 0 else { throw Self.refused(port, errno) }
        descriptor = FileDescriptor(number)
        var on: Int32 = 1
        setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.number.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let isBound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(number, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        guard isBound, listen(number, Self.backlog) == 0 else { throw Self.refused(port, errno) }
    }

    deinit {
        // A program that is being started holds copies of all descriptors until its exec: closing alone would let the
        // port listen on.
        shutdown(descriptor.number, Int32(SHUT_RDWR))
    }

    /// The descriptor, for poll(2).
    var fileDescriptor: Int32 { descriptor.number }

    /// A waiting connection, nil when none waits.
    func accept() throws -> Connection? {
        try Socket.accept(from: descriptor.number).map { Connection(socket: $0) }
    }

    private static func refused(_ port: LoopbackPort, _ number: Int32) -> ScriptedServerError {
        ScriptedServerError(
            .port,
            "Port \(port.number) of 127.0.0.1 cannot be listened on (\(systemMessage(number))); make a new server."
        )
    }
}
