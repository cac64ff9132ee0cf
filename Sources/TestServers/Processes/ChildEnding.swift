/// The end of a child process, and the resources that it used.
package struct ChildEnding: Hashable, Sendable, CustomStringConvertible {
    /// The two ways in which a process can end.
    package enum Cause: Hashable, Sendable {
        /// It returned this status (0...255).
        case exited(Int32)
        /// This signal ended it.
        case signaled(Int32)
    }

    /// The status or the signal.
    package let cause: Cause
    /// Processor time spent in the program.
    package let userTime: Duration
    /// Processor time spent in the kernel for the program.
    package let systemTime: Duration
    /// The kernel's `ru_maxrss` in bytes: an upper bound only.
    ///
    /// A spawned child begins with the peak of the process that spawned it, so the figure is never less than
    /// the parent's own peak. A program that must know its own peak reads `VmHWM` in `/proc/self/status`.
    package let peakResidentBytesBound: Int
    /// From before the process was made to the moment it was seen to have ended.
    package let elapsed: Duration

    /// The exit status; nil when a signal ended it.
    package var status: Int32? {
        if case .exited(let status) = cause { return status }
        return nil
    }

    /// The signal that ended it; nil when it exited by itself.
    package var signal: Int32? {
        if case .signaled(let signal) = cause { return signal }
        return nil
    }

    /// Whether it exited with status 0.
    package var succeeded: Bool { cause == .exited(0) }

    package var description: String {
        switch cause {
        case .exited(let status): "exited with status \(status)"
        case .signaled(let signal): "was ended by signal \(signal)"
        }
    }
}

/// An error of a child process that could not be started, fed, read or waited for.
package struct ChildProcessError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of error; more codes may be added.
    package struct Code: Hashable, Sendable {
        let name: String
        /// No such program, or it may not be executed.
        package static let programNotFound = Code(name: "programNotFound")
        /// The system refused a pipe, a file, a thread or the process itself.
        package static let startFailed = Code(name: "startFailed")
        /// The deadline passed first.
        package static let timedOut = Code(name: "timedOut")
        /// The stream was not opened as a pipe, or was closed, or the child no longer reads it.
        package static let streamClosed = Code(name: "streamClosed")
        /// Reading from the child failed.
        package static let readFailed = Code(name: "readFailed")
    }

    /// Kind of the error.
    package let code: Code
    /// A sentence that says what to do.
    package let message: String

    package var description: String { message }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}
