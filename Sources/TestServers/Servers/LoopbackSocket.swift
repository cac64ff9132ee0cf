import Platform
import XMPPTestKit

/// The sockets and threads of test servers on 127.0.0.1.
enum LoopbackSocket {
    /// Listens on a reserved port.
    static func listen(on port: LoopbackPort) throws(TestServerError) -> StreamSocket {
        do throws(Errno) {
            return try StreamSocket.listening(atLoopback: port.number, backlog: 64)
        } catch {
            throw TestServerError(.startFailed, "Port \(port.number) cannot be listened on: \(error).")
        }
    }

    /// Starts to connect; nil when the system refuses immediately.
    static func connect(to port: UInt16) -> StreamSocket? {
        let socket = try? StreamSocket.connecting(toLoopback: port)
        // The kernel must not add a delay to that of the proxy.
        socket?.sendAtOnce()
        return socket
    }

    /// Makes an object that wakes a server's thread.
    static func makeWakePipe() throws(TestServerError) -> Waker {
        do throws(Errno) { return try Waker() } catch {
            throw TestServerError(.startFailed, "The system gave no pipe: \(error).")
        }
    }

    /// Runs a closure on a new thread.
    static func startThread(_ name: String, _ body: @escaping @Sendable () -> Void) -> Bool {
        (try? SystemThread(name, body)) != nil
    }
}
