package import XMPPCore

/// An error of a child process that could not be started, fed, read or waited for.
package struct ChildProcessError: CodedError, Hashable {
    /// Kind of the error.
    package let code: ErrorCode<ChildProcessError>
    /// A sentence that says what to do.
    package let message: String

    package var description: String { message }

    init(_ code: ErrorCode<ChildProcessError>, _ message: String) {
        self.code = code
        self.message = message
    }
}

extension ErrorCode where Failure == ChildProcessError {
    /// The program does not exist or is not executable.
    package static var programNotFound: Self { Self(rawValue: "programNotFound") }
    /// The system refused a pipe, a file, a thread or the process itself.
    package static var startFailed: Self { Self(rawValue: "startFailed") }
    /// The deadline passed.
    package static var timedOut: Self { Self(rawValue: "timedOut") }
    /// The stream was not opened as a pipe, or was closed, or the child no longer reads it.
    package static var streamClosed: Self { Self(rawValue: "streamClosed") }
    /// Reading from the child failed.
    package static var readFailed: Self { Self(rawValue: "readFailed") }
}
