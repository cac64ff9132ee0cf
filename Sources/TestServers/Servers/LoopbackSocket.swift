import XMPPTestKit
import Glibc

/// The few calls on TCP sockets of 127.0.0.1 that test servers need.
enum LoopbackSocket {
    /// Listens on a reserved port.
    static func listen(on port: LoopbackPort) throws(TestServerError) -> FileDescriptor {
        let number = try make()
        let descriptor = FileDescriptor(number)
        var on: Int32 = 1
        setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
        let isBound = withAddress(port.number) { bind(number, $0, $1) == 0 }
        guard isBound, Glibc.listen(number, 64) == 0 else {
            throw TestServerError(
                .startFailed, "Port \(port.number) cannot be listened on: \(systemMessage(errno)).")
        }
        return descriptor
    }

    /// Begins to connect; nil when the system refuses at once.
    static func connect(to port: UInt16) -> FileDescriptor? {
        guard let number = try? make() else { return nil }
        let descriptor = FileDescriptor(number)
        let result = withAddress(port) { Glibc.connect(number, $0, $1) }
        guard result == 0 || errno == EINPROGRESS else { return nil }
        return descriptor
    }

    /// Binds a socket to a free port; nil when there is none.
    static func bindFreePort(_ number: Int32) -> UInt16? {
        guard withAddress(0, { bind(number, $0, $1) }) == 0 else { return nil }
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(number, $0, &size) }
        }
        return result == 0 ? UInt16(bigEndian: address.sin_port) : nil
    }

    /// Acknowledges what has arrived without waiting for something to send with it. The system forgets the wish, so it is
    /// made before each wait (tcp(7)).
    static func acknowledgeAtOnce(_ descriptor: Int32) {
        var on: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_QUICKACK, &on, socklen_t(MemoryLayout<Int32>.size))
    }

    /// Closes with a reset instead of an end.
    static func resetOnClose(_ descriptor: Int32) {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    /// Runs something on a thread of its own.
    static func startThread(_ body: @escaping @Sendable () -> Void) -> Bool {
        let box = Unmanaged.passRetained(ThreadBody(body)).toOpaque()
        var thread = pthread_t()
        let result = pthread_create(
            &thread, nil,
            { argument in
                Unmanaged<ThreadBody>.fromOpaque(argument!).takeRetainedValue().body()
                return nil
            }, box)
        guard result == 0 else {
            Unmanaged<ThreadBody>.fromOpaque(box).release()
            return false
        }
        pthread_detach(thread)
        return true
    }

    private final class ThreadBody: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    private static func make() throws(TestServerError) -> Int32 {
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let number = socket(AF_INET, kind, 0)
        guard number >= 0 else {
            throw TestServerError(.startFailed, "The system gave no socket: \(systemMessage(errno)).")
        }
        // A delay that the proxy did not ask for must not come from the kernel.
        var on: Int32 = 1
        setsockopt(number, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
        return number
    }

    private static func withAddress<Result>(
        _ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
