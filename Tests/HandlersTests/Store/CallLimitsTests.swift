@testable import Handlers
import TestThreads
import TestSupport
import Testing

/// Calls of standing handlers that fail or wait: anybody who can make a program call a handler makes them.
@Suite(.serialized, .ownThread, .timeLimit(.minutes(5)), .engines(.sqlite, .postgres)) struct CallLimitsTests
{
    private typealias Bounds = CallLimits

    @Test(
        "X20 quarantined calls of a standing handler are limited; the oldest make way, are counted and reported"
    )
    func quarantine() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let other = try store.step { try $0.bindStanding(Count().durable) }
            let bound = try store.bind(Greet(name: "once").durable)
            let failing: @Sendable (borrowing Step) throws -> Void = { _ in throw Failure() }
            try store.end(bound, with: Reply(action: failing))
            let id = try store.step { try $0.bindStanding(Greet(name: "Juliet").durable) }
            // In several steps: a transaction of PostgreSQL with thousands of savepoints takes a time that grows with their square.
            for start in stride(from: 0, to: 10 * Bounds.quarantined, by: 250) {
                try store.step { step in
                    for number in start..<start + 250 {
                        let reply = Reply(word: "\(number)", action: failing)
                        guard case .quarantined(let reason) = try step.call(id, with: reply) else {
                            Issue.record("a call that throws was not quarantined")
                            continue
                        }
                        let isFull = number >= Bounds.quarantined
                        let dropped = "; 1 older quarantined calls of the handler were dropped"
                        #expect(reason == "the handler did not want to" + (isFull ? dropped : ""))
                    }
                }
            }
            let kept = try store.waiting().filter { $0.state == RowState.quarantined }
            // What was bound once is nobody's call: it stays.
            #expect(kept.first?.id == bound)
            #expect(kept.count == Bounds.quarantined + 1)
            let words = kept.dropFirst().map { String(decoding: $0.input, as: UTF8.self) }
            #expect(words == (9 * Bounds.quarantined..<10 * Bounds.quarantined).map { "\($0)" })
            let dropped = try store.step { try $0.droppedCalls() }
            #expect(dropped.map(\.name) == ["test.greet"])
            #expect(dropped.map(\.calls) == [9 * Bounds.quarantined])
            #expect(try #require(dropped.first).bytes > 9 * 1000 * 4)
            #expect(try store.step { try $0.call(other, with: Reply()) } == .ended)
        }
    }

    @Test("X20 quarantined calls of a standing handler have a bound in bytes", .sqliteOnly)
    func quarantineBytes() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.step { try $0.bindStanding(Greet(name: "Juliet").durable) }
            let word = String(repeating: "x", count: 1 << 20)
            for number in 0..<80 {
                let reply = Reply(word: "\(number) " + word) { _ in throw Failure() }
                _ = try store.step { try $0.call(id, with: reply) }
            }
            let bytes = try #require(try store.integer("SELECT sum(length(input)) FROM handler"))
            #expect(bytes <= Bounds.quarantinedBytes)
            #expect(try store.integer("SELECT count(*) FROM handler WHERE state = 2") == 7)
            #expect(try store.step { try $0.droppedCalls() }.map(\.calls) == [73])
            #expect(
                try store.texts(
                    "SELECT substr(CAST(input AS TEXT), 1, 2) FROM handler WHERE state = 2 ORDER BY id"
                ).last
                    == "79")
        }
    }

    @Test("X20 a call that is tried again and fails for good counts as quarantined, too", .sqliteOnly)
    func quarantinedLater() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            try fill(store, calls: Bounds.quarantined + 50, state: RowState.pending)
            let ids = try store.waiting().map(\.id)
            for id in ids {
                try store.step {
                    try $0.transaction.calls.quarantine(AnyHandlerID(id), StoredReason("broken"))
                }
            }
            #expect(try store.waiting().map(\.id) == Array(ids.dropFirst(50)))
            #expect(try store.step { try $0.droppedCalls() }.map(\.calls) == [50])
        }
    }

    /// Rows as calls of a standing handler leave them.
    private func fill(_ store: HandlerStore, calls: Int, state: Int64, size: Int = 10) throws {
        _ = try store.step {
            try $0.execute(
                """
                WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < CAST(?1 AS BIGINT))
                INSERT INTO handler(name, version, arguments, kind, state, bound_at, call, input, size)
                SELECT 'test.greet', 1, x'', 0, ?2, 0, x'', x'', ?3 FROM n
                """, calls, state, size)
        }
    }

    @Test(
        "X20 of calls that wait for a program that knows the handler, those beyond the bound are quarantined",
        .sqliteOnly,
        arguments: [(100_000, 10), (256, 1 << 20)])
    func waiting(_ calls: Int, _ size: Int) throws {
        try withFolder { folder in
            let id = try openStore(folder.file()).step { try $0.bindStanding(Greet(name: "Juliet").durable) }
            let store = try openStore(folder.file(), [])
            try fill(store, calls: calls - 1, state: RowState.parked, size: size)
            func call() throws -> Disposition { try store.step { try $0.call(id, with: Reply(word: "one")) } }
            guard case .parked = try call() else {
                Issue.record("a call within the bound did not wait")
                return
            }
            try fill(store, calls: 1, state: RowState.parked, size: size)
            // Counted once in so many calls.
            for _ in 0..<10 * Bounds.piece { _ = try call() }
            let parked = try #require(try store.integer("SELECT count(*) FROM handler WHERE state = 1"))
            #expect(parked <= Int64(calls + Bounds.piece + 1))
            guard case .quarantined(let reason) = try call() else {
                Issue.record("a call beyond the bound waits")
                return
            }
            #expect(reason.hasPrefix("too many calls wait already; no handler named 'test.greet'"))
        }
    }

    @Test("X20 the reason for which a call is kept has a bound")
    func reason() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.step { try $0.bindStanding(Greet(name: "Juliet").durable) }
            let words = String(repeating: "x", count: 1 << 20)
            _ = try store.step { try $0.call(id, with: Reply { _ in throw Failure(description: words) }) }
            #expect(try store.integer("SELECT length(reason) FROM handler WHERE state = 2") == 4096)
        }
    }

    // MARK: Events and endings

    private struct Said: DurableEvent {
        static let id = "test.said"
        var text: String
    }

    @Test(
        "X20 events that nobody consumes are limited in number and size; posting more is an error",
        .sqliteOnly)
    func events() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let fill = """
                WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)
                INSERT INTO event(name, payload, posted_at) SELECT ?, CAST('{"text":""}' AS BLOB), 0 FROM n
                """
            _ = try store.step { try $0.execute(fill, Events.maximumEvents - 1, Said.id) }
            _ = try store.step { try $0.execute(fill, 10, "test.other") }
            try store.step { try $0.post(Said(text: "last")) }
            for _ in 0..<10 {
                let full = error(of: { try store.step { try $0.post(Said(text: "more")) } })
                #expect(full?.code == .tooManyEvents)
                #expect(full?.message.contains("100000 events 'test.said' wait; consume them") == true)
            }
            #expect(try store.integer("SELECT count(*) FROM event WHERE name = 'test.said'") == 100_000)
            // Another scope, and one that was consumed, make room.
            try store.step { try $0.post(Said(text: "elsewhere"), in: HandlerScope("other")) }
            _ = try store.step { try $0.execute("DELETE FROM event WHERE id = 50000") }
            try store.step { try $0.post(Said(text: "one more")) }
            #expect(code(of: { try store.step { try $0.post(Said(text: "two more")) } }) == .tooManyEvents)
            let large = error(of: {
                try store.step { try $0.post(Said(text: String(repeating: "x", count: 65_536))) }
            })
            #expect(large?.code == .argumentNotEncodable)
            #expect(large?.message.contains("store the content in a table") == true)
        }
    }

    @Test("X20 endings are limited however young they are")
    func endings() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            _ = try store.step {
                try $0.execute(
                    """
                    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)
                    INSERT INTO ending(handler, name, outcome, ended_at) SELECT n, 'test.greet', 0, ? FROM n
                    """, Repairs.maximumEndings + 700, Int64.max)
            }
            var start: AnyHandlerID? = AnyHandlerID(rawValue: 0)
            while let place = start {
                start = try store.step {
                    try $0.transaction.repairs.pruneEndings(
                        before: Timestamp(milliseconds: 0), after: place, limit: 100_000)
                }
            }
            #expect(try store.integer("SELECT min(handler) FROM ending") == 701)
            #expect(try store.integer("SELECT count(*) FROM ending") == Int64(Repairs.maximumEndings))
        }
    }
}
