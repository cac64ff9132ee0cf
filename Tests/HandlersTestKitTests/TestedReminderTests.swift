import Foundation
import TestServers
import TestThreads
import Testing

/// The sample of docs/guide/testing.md.
@Suite(.ownThread) struct TestedReminderTests {
    @Test("W6 the sample tests a timer's handler: a week passes at once, over the end of the program")
    func output() throws {
        let child = try ChildProcess(BuiltProduct.path("TestedReminder"), [], output: .pipe)
        let output = try child.output?.readToEnd(deadline: .now + .seconds(60))
        #expect(try child.waitUntilExit(deadline: .now + .seconds(60)).status == 0)
        #expect(
            output == """
                A week less a second: 0 letters
                A week: 1 letter
                A day later: 2 letters
                Paid, ten days later: 2 letters

                """)
    }
}
