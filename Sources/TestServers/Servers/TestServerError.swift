package import XMPPCore
import XMPPTestKit

/// An error of a test server or a peer that could not be started or used.
package struct TestServerError: CodedError, Hashable {
    /// Kind of the error.
    package let code: ErrorCode<TestServerError>
    /// A sentence that says what to do, followed by the last output of the program.
    package let message: String

    /// The message itself, without the code: a program's output has several lines.
    package var description: String { message }

    init(_ code: ErrorCode<TestServerError>, _ message: String) {
        self.code = code
        self.message = message
    }
}

extension ErrorCode where Failure == TestServerError {
    /// The program is not installed.
    package static var notInstalled: Self { Self(rawValue: "notInstalled") }
    /// The program ended, or was not ready before the deadline.
    package static var startFailed: Self { Self(rawValue: "startFailed") }
    /// The program runs although it must not, or does not run although it must.
    package static var wrongState: Self { Self(rawValue: "wrongState") }
    /// A peer could not run a command. The message is the condition of the refusal.
    package static var refused: Self { Self(rawValue: "refused") }
}

extension LoopbackPort {
    /// Reserves a port for a server.
    ///
    /// - Throws: ``TestServerError`` `startFailed` when the system provides none.
    static func reserved() throws(TestServerError) -> LoopbackPort {
        do throws(ScriptedServerError) {
            return try LoopbackPort()
        } catch { throw TestServerError(.startFailed, error.message) }
    }
}
