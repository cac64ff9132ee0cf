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

    @Test("W6 the page on testing shows the code of the sample")
    func page() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
        func text(_ path: String) throws -> String {
            try String(contentsOf: root.appending(path: path), encoding: .utf8)
        }
        let sample = try text("Snippets/TestedReminder.swift")
        #expect(try text("docs/guide/testing.md").contains("```swift\n\(sample)```\n"))
    }
}
