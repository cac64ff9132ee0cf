import XMPPCore
import XMPPTestKit
import FoundationEssentials
import Platform
import Synchronization

/// The child process of a ``TestServer`` while it runs.
package final class ServerProcess: Sendable {
    private let name: String
    private let folder: String
    private let process = Mutex<ChildProcess?>(nil)

    /// - Parameters:
    ///   - name: The server's name, for messages.
    ///   - folder: The server's folder. The child's standard error goes to the file ``console`` there.
    init(_ name: String, folder: String) {
        self.name = name
        self.folder = folder
    }

    /// The file of the child's standard error.
    var console: String { "\(folder)/console" }

    /// The process id while the child runs.
    var processID: Int32? { process.withLock { $0?.isRunning == true ? $0?.processID : nil } }

    /// Starts the child, and returns once it is ready.
    ///
    /// - Parameters:
    ///   - launch: Starts the child.
    ///   - wait: Waits until the child is ready, or throws the reason why it is not.
    /// - Throws: ``TestServerError`` `wrongState` when the child runs, or the errors of the two closures. Then no child is left.
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

    /// Lends the child to a closure while the child runs.
    func withChild<Result>(
        _ body: (ChildProcess) throws(TestServerError) -> Result
    ) throws(TestServerError) -> Result? {
        let child = process.withLock { $0 }
        guard let child, child.isRunning else { return nil }
        return try body(child)
    }

    func close(_ signal: Int32 = Signal.terminate, grace: Duration) {
        process.withLock { _ = $0.take()?.terminate(signal, grace: grace) }
    }

    func kill() { process.withLock { _ = $0.take()?.killAndWait() } }

    /// Kills the child with its descendants, also those in process groups of their own.
    func killFamily() { process.withLock { $0.take()?.killFamilyAndWait() } }

    func signal(_ signal: Int32) { process.withLock { _ = $0?.signal(signal) } }

    // MARK: Common parts of servers

    /// Starts the child.
    func launch(_ body: () throws(ChildProcessError) -> ChildProcess) throws(TestServerError) -> ChildProcess
    {
        do { return try body() } catch {
            let code: ErrorCode<TestServerError> =
                error.code == .programNotFound ? .notInstalled : .startFailed
            throw TestServerError(
                code, "\(name) could not be started (make setup installs it): \(error.message)")
        }
    }

    /// Waits until the child accepts connections.
    ///
    /// - Parameter log: Returns the server's log so far.
    func waitUntilListening(
        _ ports: [LoopbackPort], _ child: ChildProcess, patience: Duration, log: () -> String
    ) throws(TestServerError) {
        try wait("It does not listen yet", child, patience: patience, log: log) {
            ports.allSatisfy(\.isListening)
        }
    }

    /// Waits until a condition holds that no event reports.
    ///
    /// - Parameters:
    ///   - shortfall: The sentence for an error when the server is stuck.
    ///   - patience: How long the server may do nothing (``StartProgress``).
    ///   - log: Returns the server's log so far.
    func wait(
        _ shortfall: String, _ child: ChildProcess, patience: Duration, log: () -> String,
        until condition: () -> Bool
    ) throws(TestServerError) {
        var progress = StartProgress(of: child, patience: patience)
        while !condition() {
            // The wait for the child's end is also the pause between two checks.
            let ending = try? child.waitUntilExit(deadline: .now + .milliseconds(10))
            if let ending { throw failure("It \(ending)", log: log()) }
            if progress.isStuck(log: consoleText + log()) {
                throw failure("\(shortfall), and it did nothing for \(patience)", log: log())
            }
        }
    }

    /// Returns the first line of the child's output that satisfies a condition.
    ///
    /// - Parameters:
    ///   - patience: How long the server may do nothing (``StartProgress``).
    ///   - log: Returns the server's log so far.
    func firstLine(
        of child: ChildProcess, patience: Duration, log: () -> String, where condition: (String) -> Bool
    ) throws(TestServerError) -> String {
        var progress = StartProgress(of: child, patience: patience)
        while true {
            do throws(ChildProcessError) {
                let line = try child.output?.readLine(deadline: .now + .seconds(1), where: condition)
                return line ?? ""
            } catch {
                guard error.code == .timedOut, !progress.isStuck(log: consoleText + log()) else {
                    throw failure(error.message, log: log())
                }
            }
        }
    }

    private var consoleText: String { (try? String(contentsOfFile: console, encoding: .utf8)) ?? "" }

    /// Returns the error of a server that did not become ready, with its last output.
    func failure(_ what: String, log: String) -> TestServerError {
        let lines = (consoleText + log).split(separator: "\n").suffix(12).joined(separator: "\n")
        return TestServerError(.startFailed, "\(name) did not start. \(what). Its last words:\n\(lines)")
    }

    static func write(_ text: String, to file: String) throws(TestServerError) {
        try writing { try Data(text.utf8).write(to: URL(filePath: file), options: .atomic) }
    }

    static func writing(_ body: () throws -> Void) throws(TestServerError) {
        do { try body() } catch {
            throw TestServerError(.startFailed, "The server's folder cannot be written: \(error)")
        }
    }
}
