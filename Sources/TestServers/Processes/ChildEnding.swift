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
    /// The kernel's `ru_maxrss` in bytes, which is only an upper bound.
    ///
    /// A spawned child starts with the peak of its parent, so the figure is never less than the parent's peak. A program that must
    /// know its own peak reads `VmHWM` in `/proc/self/status`.
    package let peakResidentBytesBound: Int
    /// The time from before the spawn until the end was seen.
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
