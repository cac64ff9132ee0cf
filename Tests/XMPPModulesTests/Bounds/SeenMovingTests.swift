import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount

/// Marks that hold the ids themselves, as stores of before have them.
@Suite(.ownThread) struct SeenMovingTests {
    private static let count = 1300

    private static func messages(_ numbers: Range<Int>) -> some Sequence<(String, String)> {
        numbers.lazy.map { ("peer\($0 % 7)@capulet.lit/x", "m\($0)") }
    }

    /// Marks of messages as they were kept before, three of which have ids of 400 KB.
    private func fill(_ filled: BoundedAccount) throws {
        let long = (0..<3).map { ("evil@evil.lit/\($0)", String(repeating: "x", count: 400_000)) }
        try filled.step { step in
            for (n, (from, id)) in (Array(Self.messages(0..<Self.count)) + long).enumerated() {
                let element = Element("message", namespace: Namespaces.client)
                try step.execute(
                    "INSERT INTO seen(account, peer, stanza_id, digest, seen_at) VALUES (?, ?, ?, ?, ?)",
                    filled.id,
                    from, id, SeenTable.digest(of: Message(element: element)), 1000 + n)
            }
            let seen =
                "INSERT INTO seen(account, peer, stanza_id, digest, seen_at, number) VALUES (?, ?, ?, 0, 5, ?)"
            try step.execute(seen, filled.id, "alice@localhost", "sent mine", Int64?.none)
            try step.execute(seen, filled.id, "alice@localhost", "stanza-id later", 7)
        }
    }

    private func check(_ filled: BoundedAccount) throws {
        // What is looked at is the same afterwards: a copy leaves no mark.
        let before = try filled.number(
            "SELECT (SELECT count(*) FROM seen) + (SELECT count(*) FROM seen_mark)")
        #expect(before == Self.count + 5)
        #expect(try filled.see(Self.messages(0..<Self.count)) == 0)
        #expect(try filled.see([("evil@evil.lit/1", String(repeating: "x", count: 400_000))]) == 0)
        try filled.step { step in
            let own = try JID("alice@localhost")
            #expect(try filled.account.seen.wasSent("mine", own: own, in: step))
            #expect(try !filled.account.seen.wasSent("theirs", own: own, in: step))
            #expect(try filled.account.seen.isPostponed("later", archive: own, in: step))
        }
        #expect(
            try filled.number("SELECT (SELECT count(*) FROM seen) + (SELECT count(*) FROM seen_mark)")
                == before)
    }

    @Test(
        "X20 marks of an older store are known before, while and after they are moved, whichever process is killed in between"
    )
    func moving() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/store.db"
        try fill(BoundedAccount(path, []))
        var left: [Int] = []
        var isMoving = true
        while isMoving {
            // Another process each time, which knows no more than what the one before has committed.
            let filled = try BoundedAccount(path, [])
            try check(filled)
            isMoving = try filled.step { try filled.account.seen.move(in: $0) }
            left.append(try filled.number("SELECT count(*) FROM seen"))
        }
        // A step moves 500 at most, and not more than a megabyte of ids: the three long ones stand first.
        #expect(left.count == 4)
        #expect(left.first.map { Self.count + 5 - $0 } == 5)
        #expect(left.last == 0)
        let filled = try BoundedAccount(path, [])
        try check(filled)
        #expect(try filled.number("SELECT sum(marks) FROM seen_sender") == Self.count + 5)
        #expect(try filled.number("SELECT min(at) FROM seen_mark WHERE at >= 1000") == 1000)
        try filled.step { try filled.account.seen.settle(number: 7, in: $0) }
        #expect(try filled.number("SELECT count(*) FROM seen_mark WHERE number IS NOT NULL") == 0)
    }

    @Test(
        "X20 a message that is not handled yet is new in another session, before its mark is moved and after")
    func postponed() throws {
        for isMoved in [false, true] {
            let folder = try TemporaryFolder()
            let filled = try BoundedAccount(folder.path + "/store.db", [])
            let id = String(repeating: "x", count: 400_000)
            try fill(filled)
            try filled.step { step in
                try step.execute("UPDATE seen SET number = 3 WHERE peer = 'evil@evil.lit/1'")
                if isMoved { while try filled.account.seen.move(in: step) {} }
                try filled.account.seen.forgetPostponed(in: step)
            }
            #expect(try filled.see([("evil@evil.lit/1", id)]) == 1)
            #expect(try filled.see([("evil@evil.lit/1", id)]) == 0)
            #expect(try filled.see([("evil@evil.lit/2", id)]) == 0)
        }
    }

    @Test(
        "X22 no number that is stored with a mark or its sender ends the process",
        arguments: [
            "seen_sender SET newest", "seen_sender SET marks", "seen_sender SET heard", "seen SET seen_at",
            "seen SET number", "seen_mark SET at",
        ])
    func alteredNumbers(column: String) async throws {
        await #expect(processExitsWith: .success) { [column = column as String] in
            for value in [Int64.min, -1, Int64.max] {
                let folder = try TemporaryFolder()
                let filled = try BoundedAccount(folder.path + "/store.db", [])
                try filled.see(Self.messages(0..<20))
                try SeenMovingTests().fill(filled)
                try filled.step { _ = try $0.execute("UPDATE OR REPLACE \(column) = ?", value) }
                try filled.see(Self.messages(0..<200))
                try filled.step { while try filled.account.seen.move(in: $0) {} }
                try filled.see(Self.messages(2000..<2200))
                try filled.step { step in
                    var walk = SeenTable.Walk(age: .milliseconds(1), needed: NeededMarks(), now: step.now)
                    while try filled.account.seen.forget(&walk, in: step) {}
                }
            }
        }
    }

    @Test("X22 a stored number of marks that is too high is corrected, so that the bound holds again")
    func tooHighCount() throws {
        let folder = try TemporaryFolder()
        let filled = try BoundedAccount(folder.path + "/store.db", [])
        try filled.see((0..<20).lazy.map { ("peer@capulet.lit/x", "m\($0)") })
        try filled.step { _ = try $0.execute("UPDATE seen_sender SET marks = 1000000") }
        try filled.see((20..<21).lazy.map { ("peer@capulet.lit/x", "m\($0)") })
        let counted = try filled.number("SELECT marks FROM seen_sender")
        #expect(counted == 21)
        #expect(try filled.number("SELECT count(*) FROM seen_mark") == counted)
    }
}
