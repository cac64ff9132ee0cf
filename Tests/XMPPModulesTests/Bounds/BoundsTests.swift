import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount
@testable import XMPPModules

/// Everything that others can fill is filled some times over, each in a process of its own.
@Suite(.ownThread, .timeLimit(.minutes(10))) struct BoundsTests {
    @Test(
        "X20 what others fill some times over stays within its rows and bytes, within the memory of a worker, and the next wake reads no more of it",
        arguments: Flood.allCases)
    func flood(_ flood: Flood) async throws {
        let folder = try TemporaryFolder()
        // Its peak is that of a process of its own.
        await #expect(processExitsWith: .success) { [flood, path = (folder.path + "/store.db") as String] in
            let filled = try BoundedAccount(path, flood.modules)
            try flood.prepare(filled)
            let number = flood.tables[0].rows
            let times = TestScale.of(10, part: 2)
            try flood.fill(filled, 0..<number)
            for table in flood.tables {
                let count = try filled.number("SELECT count(*) FROM \(table.name)")
                try #require(
                    (table.rows * 9 / 10...table.rows).contains(count), "\(count) rows in \(table.name)")
            }
            let before = try BoundedAccount.pagesOfWake(path, flood.modules)
            try PhysicalMemory.withinWorker { try flood.fill(filled, number..<times * number) }
            for table in flood.tables {
                let count = try filled.number("SELECT count(*) FROM \(table.name)")
                try #require(count <= table.rows, "\(count) rows in \(table.name), not \(table.rows)")
                let size = table.columns.map { "ifnull(length(CAST(\($0) AS BLOB)), 0)" }
                let sum = "SELECT max(\(size.joined(separator: " + "))) FROM \(table.name)"
                let bytes = try filled.number(sum)
                try #require(bytes > 0 && bytes <= table.bytes, "a row of \(bytes) bytes in \(table.name)")
            }
            let after = try BoundedAccount.pagesOfWake(path, flood.modules)
            // Not a row of it: as many pages, up to what a tree that was changed is deeper.
            try #require(after <= before + 20, "\(after) pages, not \(before)")
        }
    }

    @Test(
        "X20 events that wait for a listener that does not look have a bound in number and bytes, within the memory of a worker"
    )
    func events() async throws {
        // Its peak is that of a process of its own.
        await #expect(processExitsWith: .success) {
            let folder = try TemporaryFolder()
            let filled = try BoundedAccount(folder.path + "/store.db", [])
            func unreadable(_ n: Int, _ bytes: Int) -> String {
                "<message id='\(n)' from='no address @'><body>\(String(repeating: "x", count: bytes))</body></message>"
            }
            var events = filled.account.events.makeAsyncIterator()
            let large = TestScale.of(400, part: 100)
            // The code that takes stanzas in does not count.
            try filled.receive((0..<10).lazy.map { unreadable($0, 200_000) })
            try PhysicalMemory.withinWorker {
                try filled.receive(
                    (0..<TestScale.of(10, part: 2) * EventHub.waiting).lazy.map { unreadable($0, 10) })
                try filled.receive((0..<large).lazy.map { unreadable($0, 200_000) })
            }
            filled.account.hub.finish()
            var ids: [String] = []
            while let event = await events.next() {
                guard case .ignored(let element, _) = event else { continue }
                ids.append(element["id"]?.string ?? "")
            }
            // The newest are there, in order.
            let last = Array((large - ids.count..<large).map(String.init))
            try #require(ids == last && (5...10).contains(ids.count), "\(ids.count): \(ids.first ?? "")")
        }
    }

    @Test(
        "X20 of many small events the newest 10 000 wait, the others are counted, and a listener that is gone gets none"
    )
    func smallEvents() async throws {
        let folder = try TemporaryFolder()
        let filled = try BoundedAccount(folder.path + "/store.db", [])
        let hub = filled.account.hub
        let dropped = Kept(0)
        let kept = filled.account.events(of: Numbered.self) { count in dropped.withLock { $0 += count } }
        let offered = Kept(0)
        var gone: AsyncStream<Int>? = hub.listen { _ in
            offered.withLock { $0 += 1 }
            return 1
        }
        hub.send(.handedOver)
        #expect(gone != nil && offered.withLock { $0 } == 1)
        gone = nil
        for n in 0..<10 * EventHub.waiting { hub.send(.module(Numbered(n: n))) }
        #expect(offered.withLock { $0 } == 1)
        hub.finish()
        var numbers: [Int] = []
        for await event in kept { numbers.append(event.n) }
        #expect(numbers == Array(9 * EventHub.waiting..<10 * EventHub.waiting))
        #expect(dropped.withLock { $0 } == 9 * EventHub.waiting)
        withExtendedLifetime(filled) {}
    }

    @Test("X20 a listener that missed events finds their number at the place where they were")
    func droppedEvents() async throws {
        let folder = try TemporaryFolder()
        let filled = try BoundedAccount(folder.path + "/store.db", [])
        let hub = filled.account.hub
        var events = filled.account.events.makeAsyncIterator()
        var seen: [Int] = []
        // A dropped event is negative: minus how many.
        func take(_ count: Int) async {
            for _ in 0..<count {
                switch await events.next() {
                case .module(let event as Numbered): seen.append(event.n)
                case .dropped(let count): seen.append(-count)
                default: seen.append(.max)
                }
            }
        }
        for n in 0..<EventHub.waiting { hub.send(.module(Numbered(n: n))) }
        await take(2)
        #expect(seen == [0, 1])
        for n in 0..<5 { hub.send(.module(Numbered(n: EventHub.waiting + n))) }
        seen = []
        await take(2)
        #expect(seen == [-3, 5])
        hub.send(.module(Numbered(n: EventHub.waiting + 5)))
        hub.finish()
        seen = []
        await take(EventHub.waiting)
        let isWhole = seen == Array(6..<EventHub.waiting + 6)
        #expect(isWhole)
        withExtendedLifetime(filled) {}
    }

    private struct Numbered: ModuleEvent {
        let n: Int
    }

    @Test("X20 a text is cut to its bytes where a scalar ends, and a token is never cut")
    func texts() {
        #expect(ForeignText("abc").prefix(bytes: 3) == "abc")
        #expect(ForeignText("abcd").prefix(bytes: 3) == "abc")
        #expect(Array(ForeignText("aüb").prefix(bytes: 2).utf8) == [0x61])
        #expect(Array(ForeignText("e\u{301}\u{301}").prefix(bytes: 4).utf8) == Array("e\u{301}".utf8))
        #expect(ForeignText("😀😀").prefix(bytes: 7) == "😀")
        #expect(ForeignText("").prefix(bytes: 0) == "")
        let longest = ForeignText(String(repeating: "ü", count: 512))
        #expect(longest.token == longest)
        #expect(ForeignText("\(longest)!").token == nil)
    }

    // MARK: Whose marks go

    private func withAccount(_ body: (BoundedAccount) throws -> Void) throws {
        let folder = try TemporaryFolder()
        try body(BoundedAccount(folder.path + "/store.db", [RosterModule(), RoomsModule()]))
    }

    private func messages(_ from: String, _ numbers: Range<Int>) -> some Sequence<(String, String)> {
        numbers.lazy.map { (from, "m\($0)") }
    }

    @Test("X20 a flood pushes out the oldest marks of who floods, and nobody else's")
    func ownMarks() throws {
        try withAccount { filled in
            try filled.see([("juliet@capulet.lit/balcony", "hers")])
            try filled.see(messages("evil@evil.lit/a", 0..<SeenSenders.marksEach))
            #expect(try filled.see(messages("evil@evil.lit/a", 0..<10)) == 0)
            // Another resource is the same sender. Nothing is dropped before there is a piece to drop.
            let piece = SeenSenders.piece
            try filled.see(messages("evil@evil.lit/b", 0..<piece))
            #expect(try filled.see([("evil@evil.lit/a", "m0")]) == 0)
            try filled.see([("evil@evil.lit/b", "m\(piece)")])
            #expect(try filled.number("SELECT max(marks) FROM seen_sender") == SeenSenders.marksEach)
            #expect(try filled.see([("juliet@capulet.lit/balcony", "hers")]) == 0)
            #expect(try filled.see(messages("evil@evil.lit/a", piece + 1..<SeenSenders.marksEach)) == 0)
            #expect(try filled.see([("evil@evil.lit/a", "m\(piece)")]) == 1)
        }
    }

    @Test("X20 the occupants of a room share its marks")
    func occupants() throws {
        try withAccount { filled in
            try filled.see([("room@rooms.lit/juliet", "hers")])
            try filled.see(messages("other@rooms.lit/evil", 0..<100))
            #expect(try filled.see([("room@rooms.lit/juliet", "hers")]) == 0)
            for nick in 0..<11 { try filled.see(messages("room@rooms.lit/\(nick)", 0..<1000)) }
            #expect(try filled.see([("room@rooms.lit/juliet", "hers")]) == 1)
            #expect(try filled.see(messages("other@rooms.lit/evil", 0..<100)) == 0)
        }
    }

    @Test("X20 no id hides the message of another sender, however they are put together")
    func collisions() throws {
        try withAccount { filled in
            try filled.see([("a@evil.lit/bc", "d")])
            #expect(
                try filled.see([("a@evil.lit/b", "cd"), ("a@evil.lit", "bcd"), ("a@evil.lit/bcd", "")]) == 3)
            #expect(try filled.see([("a@evil.lit/bc", "d")]) == 0)
        }
    }

    @Test("X20 of too many senders the one that was silent longest goes, and a room stays")
    func silentSenders() throws {
        try withAccount { filled in
            try filled.see([("room@rooms.lit/juliet", "hers"), ("nurse@capulet.lit/x", "hers")])
            try filled.step { step in
                try step.execute("UPDATE seen_sender SET heard = heard - 48")
                try step.execute(
                    """
                    INSERT INTO room(account, jid, nick, state, history, ticket, last_time)
                    VALUES (?, 'room@rooms.lit', 'alice', 'left', x'', '', ?)
                    """, filled.id, step.now)
            }
            try filled.see((0..<SeenSenders.limit + 200).lazy.map { ("s\($0)@evil.lit/x", "1") })
            #expect(try filled.see([("room@rooms.lit/juliet", "hers")]) == 0)
            #expect(try filled.see([("nurse@capulet.lit/x", "hers")]) == 1)
        }
    }

    @Test("X20 of too many marks in all the oldest go of the sender that has the most")
    func mostMarks() throws {
        try withAccount { filled in
            try filled.see([("juliet@capulet.lit/balcony", "hers")])
            let each = SeenSenders.marksEach - 64
            let senders = SeenSenders.marks / each
            try filled.step { step in
                try step.execute(
                    """
                    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?2)
                    INSERT INTO seen_sender(id, account, digest, marks, newest, heard)
                    SELECT 1000 + n, ?1, randomblob(16), ?3, 1000000, 0 FROM n
                    """, filled.id, senders, each)
                try step.execute(
                    """
                    WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < ?2 * ?3 - 1)
                    INSERT INTO seen_mark(sender, at, mark, account)
                    SELECT 1001 + n / ?3, n % ?3, randomblob(16), ?1 FROM n
                    """, filled.id, senders, each)
            }
            // Up to the bound, and then ten times as much as is looked at once beyond it.
            let room = SeenSenders.marks - senders * each
            for round in 0..<11 {
                try filled.see(messages("s\(round)@evil.lit/x", 0..<(round == 0 ? room : 640)))
            }
            let total = try filled.number("SELECT count(*) FROM seen_mark")
            #expect(total <= SeenSenders.marks + 2 * SeenSenders.piece)
            #expect(try filled.number("SELECT sum(marks) FROM seen_sender") == total)
            #expect(
                try filled.number("SELECT min(marks) FROM seen_sender WHERE id > 1000 AND id <= 2000") > 0)
            #expect(try filled.see([("juliet@capulet.lit/balcony", "hers")]) == 0)
            #expect(try filled.see(messages("s10@evil.lit/x", 0..<640)) == 0)
        }
    }
}
