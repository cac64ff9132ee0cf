import FoundationEssentials
import Platform

extension ChildProcess {
    /// Whether the kernel reports the process as stopped.
    package var isStopped: Bool {
        let status = try? String(contentsOfFile: "/proc/\(processID)/stat", encoding: .utf8)
        // The state follows the name, which is in parentheses.
        return status?.split(separator: ")").last?.hasPrefix(" T") == true
    }
}

/// A child that is stopped (SIGSTOP) when it writes a certain line, such as inside a transaction.
package final class FrozenProcess {
    private static let limit = Duration.seconds(60)

    private let process: ChildProcess

    /// Starts a child and stops it. Returns once the kernel reports it as stopped.
    ///
    /// - Parameters:
    ///   - program: The program's path.
    ///   - arguments: Its arguments.
    ///   - word: The line that it writes at the place of the stop. Then it must wait for the end of its standard input.
    /// - Throws: ``ChildProcessError`` when the child cannot be started, does not write the line, or does not stop.
    package init(_ program: String, _ arguments: [String], saying word: String) throws {
        process = try ChildProcess(program, arguments, input: .pipe, output: .pipe)
        while try nextLine() != word {}
        process.signal(Signal.stop)
        let deadline = ContinuousClock.now + Self.limit
        while !isStopped {
            guard ContinuousClock.now < deadline else {
                throw ChildProcessError(.timedOut, "The child \(process.processID) does not stop.")
            }
            SystemThread.sleep(microseconds: 1000)
        }
    }

    /// Whether the kernel reports the process as stopped.
    package var isStopped: Bool { process.isStopped }

    /// Resumes the child and closes its standard input.
    ///
    /// - Returns: The next line that it writes.
    @discardableResult
    package func thaw() throws -> String {
        process.signal(Signal.resume)
        process.closeInput()
        return try nextLine()
    }

    /// Kills the process while it is stopped.
    package func kill() { process.killAndWait() }

    private func nextLine() throws -> String {
        guard let line = try process.output?.readLine(deadline: .now + Self.limit) else {
            throw ChildProcessError(
                .streamClosed, "The child \(process.processID) has said all it had to say.")
        }
        return line
    }
}
