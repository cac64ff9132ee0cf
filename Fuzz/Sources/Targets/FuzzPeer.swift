import Glibc
@testable import Handlers
import Synchronization

/// The other end of a socket on this machine: it says what is fuzzed to everybody who comes.
final class FuzzPeer: Sendable {
    enum Kind { case stream, datagrams }

    /// What is said; for datagrams what the function makes of each that arrives.
    let content = Mutex<[UInt8]>([])
    private let descriptor: Int32
    private let answer: @Sendable (_ question: [UInt8], _ content: [UInt8]) -> [UInt8]
    let port: UInt16

    /// Says the content and hangs up.
    init(unix path: String) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        answer = { _, content in content }
        port = 0
        guard withUnixAddress(path, { bind(descriptor, $0, $1) }) == 0, listen(descriptor, 64) == 0 else {
            throw Finding("no socket at \(path)")
        }
        try start { [self] in self.serveStreams() }
    }

    /// On a port of the loopback address.
    init(
        _ kind: Kind,
        answer: @escaping @Sendable (_ question: [UInt8], _ content: [UInt8]) -> [UInt8] = { $1 }
    ) throws {
        let type = kind == .stream ? SOCK_STREAM : SOCK_DGRAM
        descriptor = socket(AF_INET, Int32(type.rawValue | SOCK_CLOEXEC.rawValue), 0)
        self.answer = answer
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = descriptor
        let isBound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, size) == 0 && getsockname(descriptor, $0, &size) == 0
            }
        }
        port = UInt16(bigEndian: address.sin_port)
        guard isBound, kind == .datagrams || listen(descriptor, 64) == 0 else {
            throw Finding("no port on this machine")
        }
        try start { [self] in kind == .stream ? self.serveStreams() : self.serveDatagrams() }
    }

    /// For as long as the process lives.
    private func start(_ body: @escaping @Sendable () -> Void) throws {
        _ = try WorkerThread("fuzz peer", blocksSignals: true, body)
    }

    private func serveStreams() {
        while true {
            let client = accept(descriptor, nil, nil)
            guard client >= 0 else { continue }
            let bytes = content.withLock { $0 }
            _ = send(client, bytes, bytes.count, Int32(MSG_NOSIGNAL))
            shutdown(client, Int32(SHUT_WR))
            var sink = [UInt8](repeating: 0, count: 4096)
            while recv(client, &sink, sink.count, 0) > 0 {}
            close(client)
        }
    }

    private func serveDatagrams() {
        var buffer = [UInt8](repeating: 0, count: 4096)
        var sender = sockaddr_storage()
        while true {
            var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
            withUnsafeMutablePointer(to: &sender) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { sender in
                    let count = recvfrom(descriptor, &buffer, buffer.count, 0, sender, &size)
                    guard count > 0 else { return }
                    let bytes = answer(Array(buffer[..<count]), content.withLock { $0 })
                    _ = sendto(descriptor, bytes, bytes.count, 0, sender, size)
                }
            }
        }
    }
}

/// Lends the address of a socket in the file system.
func withUnixAddress(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
    return withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
        }
    }
}
