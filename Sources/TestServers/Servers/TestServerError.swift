import XMPPTestKit

/// An error of a test server or a peer that could not be started or used.
package struct TestServerError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of error; more codes may be added.
    package struct Code: Hashable, Sendable {
        let name: String
        /// Its program is missing.
        package static let notInstalled = Code(name: "notInstalled")
        /// It ended, or could not be made ready, before the deadline.
        package static let startFailed = Code(name: "startFailed")
        /// What was asked needs it to run, or not to run, and it is the other way round.
        package static let wrongState = Code(name: "wrongState")
        /// A peer could not do what it was told; the message is the condition with which it was refused.
        package static let refused = Code(name: "refused")
    }

    /// Kind of the error.
    package let code: Code
    /// A sentence that says what to do, followed by what the program itself last said.
    package let message: String

    package var description: String { message }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }
}

extension LoopbackPort {
    /// Reserves a port for a server.
    ///
    /// - Throws: ``TestServerError`` `startFailed` when the system has none to give.
    static func reserved() throws(TestServerError) -> LoopbackPort {
        do throws(ScriptedServerError) {
            return try LoopbackPort()
        } catch {
            throw TestServerError(.startFailed, error.message)
        }
    }
}
