import Foundation
import Glibc
import TestThreads
import Testing
import TestServers

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

    @Test("H22 the sample of Monal's macros says what they say")
    func monalHandlers() throws {
        try withFolder { folder in
            let child = try ChildProcess(
                BuiltProduct.path("MonalHandlers"), [], folder: folder.path, output: .pipe)
            let output = try child.output?.readToEnd(deadline: .now + .seconds(60)) ?? ""
            #expect(try child.waitUntilExit(deadline: .now + .seconds(60)).status == 0)
            #expect(
                output == """
                    bundle of romeo@example.net/1: true
                    used bundle 2, no note
                    no bundle 1: cancelled, true
                    no bundle 3: cancelled, true
                    used bundle 1, handed on

                    """)
        }
    }

    @Test("H22 the page on Monal's macros shows the code of the sample")
    func monalPage() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
        func lines(_ path: String) throws -> [String] {
            try String(contentsOf: root.appending(path: path), encoding: .utf8).split(separator: "\n")
                .map { $0.trimmingCharacters(in: .whitespaces) }
        }
        let sample = try Set(lines("Snippets/MonalHandlers.swift"))
        let blocks = try lines("docs/internals/monal.md").split(separator: "```swift").dropFirst()
            .map { $0.prefix { $0 != "```" } }
        #expect(blocks.count >= 3)
        for line in blocks.joined() { #expect(sample.contains(line), "\(line)") }
    }
}
