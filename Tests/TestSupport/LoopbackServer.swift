import Foundation
import Platform
import Synchronization
import Testing
package import XMPPTransport

/// A server for one connection on a loopback port, run by a thread of its own.
///
/// The script gets the accepted connection; its result, or its error, is given by `finish()`, which also
/// waits until the thread is gone.
package final class LoopbackServer<Output: Sendable>: Sendable {
    package let port: UInt16
    private let listener: Listener
    private let result = Mutex<Result<Output, any Error>?>(nil)
    private let ended = DispatchSemaphore(value: 0)

    package init(_ script: @escaping @Sendable (Connection) throws -> Output) throws {
        listener = try Listener()
        port = listener.port
        Thread.detachNewThread { [self] in
            let outcome = Result { try script(Connection(socket: try listener.accept(within: .seconds(20)))) }
            result.withLock { $0 = outcome }
            ended.signal()
        }
    }

    @discardableResult
    package func finish() throws -> Output {
        ended.wait()
        defer { ended.signal() }
        return try result.withLock { try $0!.get() }
    }
}

/// A listening socket on a free loopback port.
package final class Listener: Sendable {
    package let fileDescriptor: Int32
    package let port: UInt16

    /// - Parameter backlog: How many connections wait unaccepted.
    package init(backlog: Int32 = 8, isIPv6: Bool = false) throws {
        fileDescriptor = socket(
            isIPv6 ? AF_INET6 : AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var bound: UInt16 = 0
        if isIPv6 {
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            address.sin6_addr = in6addr_loopback
            bound = try Listener.bind(fileDescriptor, &address).sin6_port
        } else {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            bound = try Listener.bind(fileDescriptor, &address).sin_port
        }
        port = UInt16(bigEndian: bound)
        guard listen(fileDescriptor, backlog) == 0 else { throw POSIXError(.EINVAL) }
    }

    deinit { close(fileDescriptor) }

    package func accept(within limit: Duration) throws -> Socket {
        var entry = pollfd(fd: fileDescriptor, events: Int16(POLLIN), revents: 0)
        let milliseconds = Int32(limit.components.seconds * 1000)
        guard poll(&entry, 1, milliseconds) == 1, let socket = try Socket.accept(from: fileDescriptor) else {
            throw POSIXError(.ETIMEDOUT)
        }
        return socket
    }

    private static func bind<Address>(_ descriptor: Int32, _ address: inout Address) throws -> Address {
        var size = socklen_t(MemoryLayout<Address>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { generic in
                Foundation.bind(descriptor, generic, size) == 0
                    && getsockname(descriptor, generic, &size) == 0
            }
        }
        guard result else { throw POSIXError(.EADDRINUSE) }
        return address
    }
}

extension Socket {
    /// Returns two sockets connected to each other.
    package static func pair() throws -> (Socket, Socket) {
        let (one, other) = try StreamSocket.pair()
        return (Socket(one, peer: "a socket pair"), Socket(other, peer: "a socket pair"))
    }
}

/// Two connections joined by a socket pair, both used by the test's own thread.
package func makeConnectedPair() throws -> (client: Connection, server: Connection) {
    let (one, other) = try Socket.pair()
    return (Connection(socket: one), Connection(socket: other))
}

/// Does both sides' handshake in turn until both are done.
package func handshake(client: Connection, server: Connection) throws {
    var isDone = false
    for _ in 0..<10 where !isDone {
        let isClientDone = try client.continueHandshake()
        isDone = try server.continueHandshake() && isClientDone
    }
    #expect(isDone)
}

/// A descriptor that is readable from the start: an interruption that has already been asked for.
package final class AskedInterruption {
    private let ends: (Socket, Socket)
    package var fileDescriptor: Int32 { ends.0.fileDescriptor }

    package init() throws {
        ends = try Socket.pair()
        let waker = Connection(socket: ends.1)
        waker.write([1])
        try waker.flush(until: .after(.seconds(30)))
    }
}

/// The code of the `TransportError` that `body` throws; nil when it throws none.
package func transportError(_ body: () throws -> Void) -> TransportError? {
    do {
        try body()
        return nil
    } catch {
        return error as? TransportError
    }
}

extension Connection {
    /// Reads until `count` bytes are there, the stream ends or the deadline passes.
    package func readExactly(_ count: Int, deadline: Deadline = .after(.seconds(20))) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            guard try wait(until: deadline) == .ready else { break }
            if try read(into: &bytes) == .closed { break }
        }
        return bytes
    }
}
