import Glibc
import Platform
import Synchronization

/// A child process, from its start until it is reaped.
///
/// ```swift
/// let child = try ChildProcess("pushwake", ["main", "--database", path], output: .pipe)
/// try child.output?.readLine(deadline: .now + .seconds(5)) { $0.hasPrefix("ready") }
/// child.signal(SIGKILL)
/// let ending = try child.waitUntilExit(deadline: .now + .seconds(5))
/// ```
///
/// The child leads its own process group. When it ends, all other processes of that group are killed. When the last reference to
/// this object and its outputs is released, the whole group is killed and the child is reaped. With `endsWithParent` the kernel
/// kills the child when this process ends, even by SIGKILL.
package final class ChildProcess: Sendable {
    /// The source of a child's standard input.
    package enum Input: Sendable {
        /// Empty: the child reads the end at once.
        case null
        /// Written through ``ChildProcess/write(_:)``.
        case pipe
        /// The file at this path.
        case file(String)
    }

    /// The target of a child's standard output or standard error.
    package enum Output: Sendable {
        /// Dropped.
        case null
        /// Read through ``ChildProcess/output`` or ``ChildProcess/errors``.
        case pipe
        /// Appended to the file at this path, which is created with mode 0600 if it is missing.
        case file(String)
        /// The target of this process's own stream.
        case inherited
    }

    /// The environment of the child.
    package enum Environment: Sendable {
        /// This process's variables, with these added or replaced.
        case inheriting([String: String] = [:])
        /// These variables only.
        case only([String: String])
    }

    /// The process id, which is also the id of its process group.
    package let processID: Int32
    /// The child's standard output if it is a pipe.
    package let output: ChildOutput?
    /// The child's standard error if it is a pipe.
    package let errors: ChildOutput?

    private let input: Mutex<FileDescriptor?>
    private let life: ChildLife

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - program: A path, or a name that is looked up in `PATH`.
    ///   - arguments: The arguments after the program's name.
    ///   - environment: The child's variables.
    ///   - folder: The child's working folder; nil for this process's own.
    ///   - endsWithParent: Whether the kernel kills the child when this process ends. It costs one more exec (about 1 ms, by
    ///     util-linux's `setpriv`), so leave it out where the start is timed. Without `setpriv` on the machine, the child starts
    ///     without this protection.
    /// - Throws: ``ChildProcessError`` `programNotFound` or `startFailed`.
    package init(
        _ program: String, _ arguments: [String] = [], environment: Environment = .inheriting(),
        folder: String? = nil, input: Input = .null, output: Output = .null, errors: Output = .inherited,
        endsWithParent: Bool = true
    ) throws(ChildProcessError) {
        let path = try Self.locate(program)
        let standardInput = try ChildStream.input(input)
        let standardOutput = try ChildStream.output(output, inherited: STDOUT_FILENO)
        let standardErrors = try ChildStream.output(errors, inherited: STDERR_FILENO)
        var command = [path] + arguments
        if endsWithParent, let guardian = try? Self.locate("/usr/bin/setpriv") {
            command = [guardian, "--pdeathsig", "KILL", "--"] + command
        }
        life = try ChildLife(
            SpawnRequest(
                command: command, environment: Self.variables(environment), folder: folder,
                streams: [
                    standardInput.child.number, standardOutput.child.number, standardErrors.child.number,
                ]))
        processID = life.processID
        self.input = Mutex(standardInput.removeParent())
        self.output = ChildOutput(reading: standardOutput.removeParent(), of: life)
        self.errors = ChildOutput(reading: standardErrors.removeParent(), of: life)
    }

    // MARK: - Input

    /// Writes to the child's standard input, and waits while the child does not read.
    /// - Throws: ``ChildProcessError`` `streamClosed` when the input is no pipe, was closed or is no longer read, or when the child
    ///   has ended.
    package func write(_ text: String) throws(ChildProcessError) {
        try input.withLock { input throws(ChildProcessError) in
            guard let number = input?.number else {
                throw ChildProcessError(.streamClosed, "The child's standard input is not open.")
            }
            // Another program that starts at this moment has a copy of the reading end until its exec.
            guard isRunning else {
                throw ChildProcessError(.streamClosed, "The child \(processID) has ended.")
            }
            var rest = ArraySlice(Array(text.utf8))
            while !rest.isEmpty {
                let count = rest.withUnsafeBytes {
                    send(number, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                if count < 0, errno == EINTR { continue }
                guard count >= 0 else {
                    throw ChildProcessError(
                        .streamClosed,
                        "The child no longer reads its standard input: \(Errno.current).")
                }
                rest = rest.dropFirst(count)
            }
        }
    }

    /// Closes the child's standard input.
    package func closeInput() {
        input.withLock { $0 = nil }
    }

    // MARK: - Ending

    /// Whether the child still runs.
    package var isRunning: Bool { life.ending == nil }

    /// Sends a signal to the child only.
    /// - Returns: False when the child has ended. The signal never reaches another process.
    @discardableResult
    package func signal(_ signal: Int32) -> Bool { life.send(signal) }

    /// Waits until the child has ended. Any number of threads may wait.
    /// - Throws: ``ChildProcessError`` `timedOut` when the child still runs at the deadline. The child is left running.
    @discardableResult
    package func waitUntilExit(deadline: ContinuousClock.Instant) throws(ChildProcessError) -> ChildEnding {
        guard let ending = life.waitUntilExit(deadline: deadline) else {
            throw ChildProcessError(
                .timedOut, "The child process \(processID) was still running at the deadline.")
        }
        return ending
    }

    /// Sends a signal, SIGTERM unless another one is named, waits for the grace period, then kills the group.
    @discardableResult
    package func terminate(
        _ signal: Int32 = Signal.terminate, grace: Duration = .seconds(5)
    ) -> ChildEnding? {
        life.send(signal)
        if let ending = life.waitUntilExit(deadline: .now + grace) { return ending }
        return killAndWait()
    }

    /// Kills the child and its whole group with SIGKILL, and waits until it is reaped.
    @discardableResult
    package func killAndWait() -> ChildEnding? {
        life.killGroup()
        return life.waitUntilExit(deadline: .now + .seconds(10))
    }

    // MARK: - Starting

    private static func locate(_ program: String) throws(ChildProcessError) -> String {
        if program.utf8.contains(UInt8(ascii: "/")) {
            if access(program, X_OK) == 0 { return program }
            throw ChildProcessError(
                .programNotFound, "There is no program at \(program), or it may not be executed.")
        }
        let folders = getenv("PATH").map { String(cString: $0) } ?? "/usr/bin:/bin"
        for folder in folders.split(separator: ":") where access("\(folder)/\(program)", X_OK) == 0 {
            return "\(folder)/\(program)"
        }
        throw ChildProcessError(
            .programNotFound, "The program \(program) is not in PATH: install it (make setup).")
    }

    private static func variables(_ environment: Environment) -> [String] {
        switch environment {
        case .only(let variables): return variables.map { "\($0.key)=\($0.value)" }
        case .inheriting(let added):
            var kept: [String] = []
            var next = environ
            while let entry = next.pointee {
                let text = String(cString: entry)
                if added[String(text.prefix { $0 != "=" })] == nil { kept.append(text) }
                next += 1
            }
            return kept + added.map { "\($0.key)=\($0.value)" }
        }
    }
}
