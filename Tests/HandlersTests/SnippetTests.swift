import Foundation
import Glibc
import TestThreads
import TestSupport
import Testing
import TestServers

/// The programs of Snippets/ without XMPP, as a reader runs them, and the pages that show them.
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

    @Test(
        "H15 the guide's charge is tried again, and its reminder comes later"
    )
    func reminders() throws {
        try withFolder { folder in
            let child = try ChildProcess(
                BuiltProduct.path("Reminders"), [], folder: folder.path, output: .pipe)
            let output = try child.output?.readToEnd(deadline: .now + .seconds(60)) ?? ""
            #expect(try child.waitUntilExit(deadline: .now + .seconds(60)).status == 0)
            #expect(
                output
                    == "the choice ended with result\norder 17: thank you for 450 cents\nthe best offer is 70 cents\nBob paid 1999 cents\nAda, please pay\norder 18 is not sent: chain-limit\nshipped: [1, 2, 3]\n"
            )
        }
    }

    @Test(
        "H31 the guide's order is charged and paid, as a workflow and as handlers, although each service loses its first answer",
        arguments: ["OrderWorkflow", "OrderHandlers"])
    func order(sample: String) throws {
        try withFolder { folder in
            let output = try output(of: sample, [], in: folder.path)
            #expect(output == "order 17: Ada, Bob, Eve\n")
        }
    }

    @Test("H36 the guide's subscription is billed each month until it is canceled")
    func subscription() throws {
        try withFolder { folder in
            let output = try output(of: "Subscription", [], in: folder.path)
            #expect(output == "billed for [1, 2, 3], canceled in month 3\n")
        }
    }

    @Test(
        "H31 the guide's order goes on with three answers at once, with two after a minute and with one never; it waits for a payment for three days",
        arguments: ["order-workflow", "order-handlers"])
    func orderRehearsal(program: String) throws {
        try withFolder { folder in
            let output = try output(of: program, ["rehearse"], in: folder.path)
            #expect(
                output == """
                    order 1, 59 s; charged 1
                    order 1, 61 s; charged 1
                    order 2, 59 s; charged 1
                    order 2, 61 s; charged 1 and 2
                    order 3, 59 s; charged 1 and 2
                    order 3, 61 s; charged 1 and 2; order 3 is released: failed
                    payment 1; charged 1 and 2; bill 1 is paid
                    three days less 100 s; charged 1 and 2; 2 lines until 1750057200000; 3 lines until 1750143600000; 4 lines until 1750230000000
                    three days; charged 1 and 2; order 2 is released: failed

                    """)
        }
    }

    @Test(
        "H31 killed twenty times under load, the guide's orders all end, each effect once",
        arguments: [("order-workflow", "OrderWorkflow"), ("order-handlers", "OrderHandlers")])
    func orderKills(program: String, sample: String) throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..").path
        let child = try ChildProcess(
            "python3",
            [
                root + "/Benchmarks/OrderKills/run.py", "20", "--window", "0.3", "--bound", "60",
                "\(program)=\(root)/Snippets/\(sample).swift=\(try BuiltProduct.path(program))",
            ], output: .pipe)
        let output = try child.output?.readToEnd(deadline: .now + .seconds(120)) ?? ""
        #expect(try child.waitUntilExit(deadline: .now + .seconds(60)).status == 0, "\(output)")
        #expect(output.contains("| \(program) | 40 | 40 | 0 | 0 | 0 |"), "\(output)")
    }

    /// Runs a program that ends by itself.
    private func output(of program: String, _ arguments: [String], in folder: String) throws -> String {
        let child = try ChildProcess(
            BuiltProduct.path(program), arguments, folder: folder, output: .pipe)
        let output = try child.output?.readToEnd(deadline: .now + .seconds(60)) ?? ""
        #expect(try child.waitUntilExit(deadline: .now + .seconds(60)).status == 0)
        return output
    }

    @Test("H22 each Swift block of the pages is a part of a snippet, and each link leads somewhere")
    func pages() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..").path
        let child = try ChildProcess(
            "python3", [root + "/scripts/pages.py", "--check"], folder: root, output: .pipe)
        let output = try child.output?.readToEnd(deadline: .now + .seconds(60)) ?? ""
        #expect(try child.waitUntilExit(deadline: .now + .seconds(60)).status == 0, "\(output)")
    }

    @Test("H22 the page on building shows manifests that SwiftPM reads", arguments: ["MyProgram", "Shop"])
    func manifest(name: String) throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
        let page = try String(contentsOf: root.appending(path: "docs/reference/building.md"), encoding: .utf8)
        let blocks = page.components(separatedBy: "<!-- manifest -->\n```swift\n").dropFirst().compactMap {
            $0.components(separatedBy: "```\n").first
        }
        let block = try #require(blocks.first { $0.contains("\"\(name)\"") })
        try withFolder { folder in
            try block.write(
                to: URL(filePath: folder.path + "/Package.swift"), atomically: true, encoding: .utf8)
            let child = try ChildProcess(
                "swift", ["package", "--package-path", folder.path, "dump-package"], output: .pipe)
            let output = try child.output?.readToEnd(deadline: .now + .seconds(60)) ?? ""
            #expect(try child.waitUntilExit(deadline: .now + .seconds(60)).status == 0)
            #expect(output.contains("\"\(name)\"") && output.contains("durable-handlers"))
        }
    }
}
