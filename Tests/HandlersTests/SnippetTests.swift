import Glibc
import TestThreads
import Testing
import XMPPTestKit

/// The sample of the README, as a reader runs it.
@Suite(.ownThread) struct SnippetTests {
    @Test("H14 the sample binds a handler and kills itself; the second run finishes it")
    func killedAndFinished() throws {
        try withFolder { folder in
            func run() throws -> (output: String, status: Int32?, signal: Int32?) {
                let child = try ChildProcess(
                    BuiltProduct.path("KilledAndFinished"), [], folder: folder.path, output: .pipe)
                let output = try child.output?.readToEnd(deadline: .now + .seconds(60)) ?? ""
                let ending = try child.waitUntilExit(deadline: .now + .seconds(60))
                return (output, ending.status, ending.signal)
            }
            let first = try run()
            #expect(first.signal == SIGKILL)
            #expect(first.output == "Bound a handler. Killing this process.\n")
            let second = try run()
            #expect(second.status == 0)
            #expect(second.output == "Ada paid 1999 cents\n")
        }
    }
}
