package import TestServers

/// How a program ended and what it said until then.
///
///     let ending = try ProgramEnding(of: "pushwake", ["help"])
///     #expect(ending.status == 0, "\(ending)")
package struct ProgramEnding: Sendable {
    /// Its exit status; nil when a signal ended it.
    package let status: Int32?
    /// What it wrote to standard output.
    package let output: String
    /// What it wrote to standard error.
    package let complaint: String
    /// Processor time that it took, in the program and in the kernel.
    package let processorTime: Duration

    /// Runs one of this package's programs to its end.
    ///
    /// - Parameters:
    ///   - environment: What is in its environment beside what this process has.
    ///   - limit: How long it may take.
    /// - Throws: `ChildProcessError`.
    package init(
        of product: String, _ words: [String], environment: [String: String] = [:],
        within limit: Duration = .seconds(60)
    ) throws {
        let process = try ChildProcess(
            BuiltProduct.path(product), words, environment: .inheriting(environment), output: .pipe,
            errors: .pipe)
        try self.init(of: process, within: limit)
    }

    /// Waits for the end of a process that runs.
    /// - Throws: `ChildProcessError`.
    package init(of process: ChildProcess, within limit: Duration = .seconds(60)) throws {
        output = try process.output?.readToEnd(deadline: .now + limit) ?? ""
        complaint = try process.errors?.readToEnd(deadline: .now + .seconds(10)) ?? ""
        let ending = try process.waitUntilExit(deadline: .now + .seconds(10))
        status = ending.status
        processorTime = ending.userTime + ending.systemTime
    }
}
