import Foundation
import TestThreads
import Testing

@testable import Handlers

@Suite("The lock file of signatures", .ownThread) struct LockFileTests {
    /// The handlers below, as a program had them once.
    private static let lock = """
        # A comment.
        handler lock.sent
          version 2
          runs inside the step
          called with HandlersTests.Reply
          argument count: Int
          argument text: String

        handler lock.other
          version 1
          runs inside the step
          called with HandlersTests.Reply

        """

    /// What the lock file complains of, once `line` in it was `changed`; nil for nothing.
    private func complaint(_ line: String, _ changed: String) throws -> HandlerError? {
        var complaint: HandlerError?
        try withFolder { folder in
            let text = Self.lock.replacing(line, with: changed)
            try #require(text != Self.lock || line == changed)
            try text.write(toFile: folder.file("handlers.lock"), atomically: true, encoding: .utf8)
            complaint = error {
                try HandlerRegistry([Sent.self, Other.self]).checkSignatures(
                    against: folder.file("handlers.lock"), updating: "run make schema")
            }
        }
        return complaint
    }

    private func expect(
        _ line: String, _ changed: String, shows difference: String, _ advice: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let complaint = try complaint(line, changed)
        #expect(complaint?.code == .signaturesChanged, sourceLocation: sourceLocation)
        let message = complaint?.message ?? ""
        #expect(message.contains("(- there, + here)"), sourceLocation: sourceLocation)
        let shown = message.split(separator: "\n\n").dropFirst().joined(separator: "\n\n")
        #expect(shown == difference + "\n  " + advice, sourceLocation: sourceLocation)
    }

    @Test(
        "H11 handlers that are those of the lock file are accepted, whatever the comments and the order in it"
    )
    func accepted() throws {
        #expect(try complaint("", "") == nil)
    }

    @Test("H11 a changed type is shown line by line, and asks for a version")
    func changedType() throws {
        try expect(
            "count: Int", "count: UInt8",
            shows: """
                  handler lock.sent
                    version 2
                    runs inside the step
                    called with HandlersTests.Reply
                -   argument count: UInt8
                +   argument count: Int
                    argument text: String
                """,
            "Rows bound before cannot be read: raise its version and give an upcast, then run make schema.")
    }

    @Test("H11 a renamed argument asks for a version")
    func renamed() throws {
        try expect(
            "text: String", "body: String",
            shows: """
                  handler lock.sent
                    version 2
                    runs inside the step
                    called with HandlersTests.Reply
                    argument count: Int
                -   argument body: String
                +   argument text: String
                """,
            "Rows bound before cannot be read: raise its version and give an upcast, then run make schema.")
    }

    @Test("H11 a new mandatory argument asks for a version, and one that may be missing does not")
    func newArgument() throws {
        let advice = try complaint("  argument count: Int\n", "")?.message.split(separator: "\n").last
        #expect(
            advice
                == "  Rows bound before cannot be read: raise its version and give an upcast, then run make schema."
        )
        for added in ["Int?", "[String]?", "Int (has a default)"] {
            let difference = SignatureDifference(
                id: "a", locked: ["version 1"], present: ["version 1", "argument a: \(added)"],
                update: "go on")
            #expect(difference.text.hasSuffix("\n  Rows bound before can still be read: go on."))
        }
    }

    @Test(
        "H11 an argument that is gone or became optional is only to be noted, and the other way asks for a version"
    )
    func widened() {
        func advice(_ locked: [String], _ present: [String]) -> String {
            let text = SignatureDifference(
                id: "a", locked: ["version 1"] + locked, present: ["version 1"] + present, update: "go on"
            ).text
            return String(text.split(separator: "\n").last ?? "")
        }
        let harmless = "  Rows bound before can still be read: go on."
        let harmful = "  Rows bound before cannot be read: raise its version and give an upcast, then go on."
        #expect(advice(["argument a: Int"], []) == harmless)
        #expect(advice(["argument a: [String: Int]"], ["argument a: [String: Int]?"]) == harmless)
        #expect(advice(["argument a: Int"], ["argument a: Int (has a default)"]) == harmless)
        #expect(advice(["argument a: Int?"], ["argument a: Int? (has a default)"]) == harmless)
        #expect(advice(["runs inside the step"], ["runs under a lease"]) == harmless)
        #expect(advice(["argument a: Int?"], ["argument a: Int"]) == harmful)
        #expect(advice(["argument a: Int (has a default)"], ["argument a: Int"]) == harmful)
        #expect(advice(["argument a: Int"], ["argument b: Int?"]) == harmful)
    }

    @Test("H11 a raised version asks for its upcast, and one that went back is refused")
    func versions() throws {
        let raised = try complaint("version 2", "version 1")?.message.split(separator: "\n").last
        #expect(raised == "  Its version was raised: give an upcast from version 1, and run make schema.")
        let lowered = try complaint("version 2", "version 3")?.message.split(separator: "\n").last
        #expect(
            lowered
                == "  Its version went back, and rows bound in version 3 would be parked: write a version above 3."
        )
    }

    @Test("H11 a handler that is gone asks for an alias, a new one only for the file")
    func goneAndNew() throws {
        try expect(
            "handler lock.other", "handler lock.former",
            shows: """
                - handler lock.former
                -   version 1
                -   runs inside the step
                -   called with HandlersTests.Reply
                  It is gone, and rows that wait for it would be parked: name its id in the aliases of its successor. \
                If no such row can be left, run make schema.

                + handler lock.other
                +   version 1
                +   runs inside the step
                +   called with HandlersTests.Reply
                """, "It is new: run make schema.")
    }

    @Test("H11 an alias that is gone and another context are named as what they break")
    func aliasAndContext() throws {
        let alias = try complaint("version 1\n", "version 1\n  alias lock.old\n")?.message
        #expect(alias?.contains("-   alias lock.old") == true)
        #expect(
            alias?.contains("Rows that wait under the alias lock.old would be parked: put it back.") == true)
        let context = try complaint("with HandlersTests.Reply\n  argument", "with Shop.Old\n  argument")?
            .message
        #expect(context?.contains("It is called with something else now") == true)
    }

    @Test("H11 a written lock file is accepted, and the same every time")
    func written() throws {
        try withFolder { folder in
            let registry = HandlerRegistry([Sent.self, Other.self, Greet.self])
            try registry.writeSignatures(to: folder.file("one.lock"), of: { $0.hasPrefix("lock.") })
            try registry.writeSignatures(to: folder.file("two.lock"), of: { $0.hasPrefix("lock.") })
            try registry.checkSignatures(against: folder.file("one.lock"), of: { $0.hasPrefix("lock.") })
            let text = String(decoding: bytes(of: folder.file("one.lock")), as: UTF8.self)
            #expect(bytes(of: folder.file("two.lock")) == bytes(of: folder.file("one.lock")))
            #expect(text.hasPrefix("# "))
            #expect(
                text.hasSuffix(
                    """
                    handler lock.other
                      version 1
                      runs inside the step
                      called with HandlersTests.Reply

                    handler lock.sent
                      version 2
                      runs inside the step
                      called with HandlersTests.Reply
                      argument count: Int
                      argument text: String

                    """))
            #expect(
                code { try registry.checkSignatures(against: folder.file("one.lock")) } == .signaturesChanged)
        }
    }

    @Test("H11 a lock file that is missing or cannot be written is named with what to do")
    func unavailable() throws {
        try withFolder { folder in
            let registry = HandlerRegistry([Sent.self])
            let missing = error {
                try registry.checkSignatures(against: folder.file("none.lock"), updating: "run make schema")
            }
            #expect(missing?.code == .lockFileUnavailable)
            #expect(missing?.message.contains("none.lock") == true)
            #expect(missing?.message.hasSuffix("if there is none yet, run make schema") == true)
            #expect(
                code { try registry.writeSignatures(to: folder.file("no/such/folder.lock")) }
                    == .lockFileUnavailable)
        }
    }
}

private struct Sent: Handler {
    static let id = "lock.sent"
    static let version = 2
    var text: String
    var count: Int
    func run(_ call: borrowing Call<Reply>) throws {}
}

private struct Other: Handler {
    static let id = "lock.other"
    func run(_ call: borrowing Call<Reply>) throws {}
}
