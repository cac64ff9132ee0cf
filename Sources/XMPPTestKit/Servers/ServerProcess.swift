import Glibc
import Synchronization

/// The child process of a ``TestServer``, while there is one.
final class ServerProcess: Sendable {
    private let name: String
    private let process = Mutex<ChildProcess?>(nil)

    /// - Parameter name: The server's name, for sentences.
    init(_ name: String) { self.name = name }

    /// The process id while it runs.
    var processID: Int32? { process.withLock { $0?.isRunning == true ? $0?.processID : nil } }

    /// Starts it, and returns once it is ready.
    ///
    /// - Parameters:
    ///   - launch: Starts the child.
    ///   - wait: Waits until the child is ready, or says why it is not.
    /// - Throws: ``TestServerError`` `wrongState` when it runs, or what the two throw; the child is then gone.
    func start(
        launch: () throws(TestServerError) -> ChildProcess,
        wait: (ChildProcess) throws(TestServerError) -> Void
    ) throws(TestServerError) {
        try process.withLock { process throws(TestServerError) in
            if let process, process.isRunning { throw TestServerError(.wrongState, "\(name) runs already.") }
            let child = try launch()
            process = child
            do throws(TestServerError) {
                try wait(child)
            } catch {
                process = nil
                _ = child.killAndWait()
                throw error
            }
        }
    }

    /// Lends the child while it runs.
    func withChild<Result>(
        _ body: (ChildProcess) throws(TestServerError) -> Result
    ) throws(TestServerError) -> Result? {
        let child = process.withLock { $0 }
        guard let child, child.isRunning else { return nil }
        return try body(child)
    }

    func close(grace: Duration) {
        process.withLock { process in
            _ = process.take()?.terminate(grace: grace)
        }
    }

    func kill() {
        process.withLock { process in
            _ = process.take()?.killAndWait()
        }
    }

    func signal(_ signal: Int32) {
        process.withLock { process in
            _ = process?.signal(signal)
        }
    }

    // MARK: What servers have in common

    static func writing(_ body: () throws -> Void) throws(TestServerError) {
        do { try body() } catch {
            throw TestServerError(.startFailed, "The server's folder cannot be written: \(error)")
        }
    }
}
