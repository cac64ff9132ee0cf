import Foundation
import Handlers
import HandlersTestKit
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPModules

@testable import PushwakeCommands

/// Which handlers `inspect` shows for a filter, and what it says about why they wait.
@Suite(.ownThread, .timeLimit(.minutes(3)))
struct InspectFilterTests {
    private let folder: TemporaryFolder
    private let clock = VirtualClock()
    private let store: HandlerStore
    private var path: String { folder.path + "/store.db" }

    struct Thank: Handler {
        static let id = "filter-test.thank"
        var customer: String
        var cents: Int
        func run(_ call: borrowing Call<TimerFired>) throws {}
    }

    struct Confirm: Handler {
        static let id = "filter-test.confirm"
        func run(_ call: borrowing Call<Joined>) throws {}
    }

    struct Failing: Handler {
        static let id = "filter-test.failing"
        static let retry = RetryPolicy(attempts: 3)
        func run(_ call: borrowing Call<TimerFired>) throws { throw Broken() }
    }

    struct Errand: Workflow {
        static let id = "filter-test.errand"
        func run(_ flow: Flow) async throws -> Nothing {
            _ = try await flow.signal("payment-17", as: String.self)
            return Nothing()
        }
    }

    struct Broken: Error, CustomStringConvertible { let description = "the printer is on fire" }

    init() throws {
        folder = try TemporaryFolder()
        store = try HandlerStore(
            path: folder.path + "/store.db",
            registry: HandlerRegistry([Thank.self, Confirm.self, Failing.self, Errand.self]),
            schemas: Account.schemas, synchronous: .normal, time: clock.timeSource)
    }

    private func thank(_ customer: String = "Ada", _ cents: Int = 1) throws -> Durable<TimerFired> {
        try Thank(customer: customer, cents: cents).durable
    }

    private var fired: TimerFired { TimerFired(dueAt: Timestamp(milliseconds: 1)) }

    private func inspect(_ words: String...) throws -> ProgramEnding {
        try ProgramEnding(of: "pushwake", ["inspect", "--store", path] + words)
    }

    private func found(_ words: String..., limit: Int = 20) throws -> FoundHandlers {
        let filter = try HandlerFilter(Arguments(words, of: "inspect"))
        return try FoundHandlers(reader, filter, limit: limit)
    }

    private var reader: StoreReader {
        StoreReader(path: path, schemas: Account.schemas, time: clock.timeSource)
    }

    private func why(_ id: some CustomStringConvertible) throws -> String? {
        try StoreContents(reader, limit: 1000).handlers.shown.first { "\($0.row)" == "\(id)" }?.why
    }

    // MARK: Filters

    @Test("W8 inspect filters handlers and endings by name, key and chain, and counts all that it finds")
    func names() throws {
        let (ada, eve, ended) = try store.step { step in
            let ada = try step.bind(thank(), key: "order-17")
            let eve = try step.bind(thank("Eve"))
            _ = try step.bind(Failing().durable)
            try step.execute("UPDATE handler SET trace = ? WHERE id = ?", ada, eve)
            let ended = try step.bind(thank("Bob"), key: "order-16")
            try step.end(ended, .result, with: fired)
            return (ada.rawValue, eve.rawValue, ended.rawValue)
        }
        let named = try found("--name", "filter-test.thank", limit: 1)
        #expect(named.handlers.count == 2 && named.handlers.shown.map(\.row) == [ada])
        #expect(named.handlers.shown.first?.key == "order-17")
        #expect(named.endings?.shown.map(\.row) == [ended] && named.endings?.shown.first?.key == "order-16")
        #expect(try found("--name", "filter-test.none").handlers.count == 0)
        let keyed = try found("--key", "order-17")
        #expect(keyed.handlers.shown.map(\.row) == [ada] && keyed.endings?.count == 0)
        #expect(try found("--key", "order-16").endings?.shown.map(\.row) == [ended])
        #expect(try found("--key", "order-17", "--name", "filter-test.failing").handlers.count == 0)
        let chain = try found("--trace", "\(ada)")
        #expect(
            chain.handlers.shown.map(\.row) == [ada, eve] && chain.handlers.shown.map(\.trace) == [ada, ada])
        #expect(chain.endings?.count == 0)
        let text = try inspect("--name", "filter-test.thank", "--limit", "1").output
        #expect(text.contains("handlers: 2\n") && text.contains("and 1 more; --limit N shows N"), "\(text)")
        #expect(
            text.contains("order-17") && text.contains("order-16") && !text.contains("failing"), "\(text)")
        #expect(try inspect().output.contains("order-16"), "an ending shows its key without a filter, too")
    }

    @Test(
        "H27 inspect filters handlers by lane, says what each waits for there, and why the lane stands still")
    func lanes() throws {
        let (first, second, last) = try store.step { step in
            try step.setLane(LaneRule("mail", concurrency: 1, rate: LaneRate(100, per: .seconds(60))))
            let first = try step.enqueue(thank(), with: fired, lane: LanePlace("mail", orderedBy: "Ada"))
            let second = try step.enqueue(thank(), with: fired, lane: LanePlace("mail", orderedBy: "Ada"))
            let last = try step.enqueue(thank("Eve"), with: fired, lane: LanePlace("mail"))
            _ = try step.enqueue(thank("Bob"), with: fired, lane: LanePlace("other"))
            return (first.rawValue, second.rawValue, last.rawValue)
        }
        let found = try found("--lane", "mail", limit: 2)
        #expect(found.handlers.count == 3 && found.handlers.shown.map(\.row) == [first, second])
        #expect(found.endings == nil)
        #expect(
            try self.found("--lane", "mail", "--argument", "customer=Eve").handlers.shown.map(\.row) == [last]
        )
        #expect(try self.found("--lane", "none").handlers.count == 0)
        #expect(
            try why(second)
                == "was called; waits in the lane 'mail' for an earlier handler with the order key 'Ada'")
        #expect(try why(last) == "was called; waits for a place in the lane 'mail'")
        #expect(try why(first)?.contains("lane") == false)
        let lanes = try StoreContents(reader, limit: 1).lanes
        #expect(lanes.count == 2 && lanes.shown.map(\.name) == ["mail"])
        #expect(
            lanes.shown.first?.why == "its only place is taken" && lanes.shown.first?.rate == "100 in 1 min")
        let text = try inspect().output
        #expect(text.contains("lanes: 2\n") && text.contains("why nothing starts"), "\(text)")
    }

    @Test("W8 inspect filters handlers by state, and shows no endings then, which have none")
    func states() throws {
        try store.step { step in
            for state in Transaction.State.allCases {
                let id = try step.bind(thank())
                try step.execute("UPDATE handler SET state = ? WHERE id = ?", state.rawValue, id)
            }
            try step.end(try step.bind(thank()), .result, with: fired)
        }
        for (row, state) in ["pending", "parked", "quarantined", "running"].enumerated() {
            let found = try found("--state", state)
            #expect(
                found.handlers.shown.map(\.row) == [Int64(row + 1)] && found.handlers.count == 1, "\(state)")
            #expect(found.handlers.shown.first?.state.rawValue == state && found.endings == nil)
        }
        let text = try inspect("--state", "parked").output
        #expect(text.contains("handlers: 1\n") && !text.contains("endings"), "\(text)")
    }

    @Test(
        "W8 inspect filters handlers by arguments, as numbers and as texts, and counts beyond the limit"
    )
    func arguments() throws {
        try store.step { step in
            _ = try step.bind(thank("Ada", 7))
            _ = try step.bind(thank("7", 7))
            for _ in 0..<1500 { _ = try step.bind(thank("Eve", 9)) }
        }
        #expect(try found("--argument", "customer=Ada").handlers.shown.map(\.row) == [1])
        #expect(try found("--argument", "customer=7").handlers.shown.map(\.row) == [2])
        #expect(try found("--argument", #"customer="7""#).handlers.shown.map(\.row) == [2])
        #expect(try found("--argument=cents=7").handlers.shown.map(\.row) == [1, 2])
        #expect(
            try found("--argument", "cents=7", "--argument", "customer=Ada").handlers.shown.map(\.row) == [1])
        let many = try found("--argument", "cents=9", limit: 1200)
        #expect(many.handlers.count == 1500 && many.handlers.shown.count == 1200 && many.endings == nil)
    }

    @Test("W8 inspect --json has the same object for a filter, with key, chain, state and the reason why")
    func json() throws {
        try store.step { _ = try $0.bind(thank(), key: "order-17") }
        let output = try inspect("--json", "--key", "order-17").output
        let whole = try #require(
            try JSONSerialization.jsonObject(with: Data(output.utf8)) as? [String: Any])
        let handlers = try #require(whole["handlers"] as? [String: Any])
        let first = try #require((handlers["shown"] as? [[String: Any]])?.first)
        #expect(first["key"] as? String == "order-17" && first["trace"] as? Int == 1)
        #expect(first["state"] as? String == "pending")
        #expect(first["why"] as? String == "waits for its call, or a signal to the key 'order-17'")
        #expect(handlers["count"] as? Int == 1 && whole["endings"] != nil && whole["timers"] == nil)
    }

    @Test(
        "W8 a filter that inspect does not take is refused with what it takes",
        arguments: [
            (["--state", "gone"], "--state must be pending, parked, quarantined or running, not 'gone'"),
            (["--trace", "x"], "--trace takes the number of the first handler of a chain"),
            (["--argument", "n"], "--argument takes NAME=VALUE, not 'n'"),
            (["--argument", "=1"], "--argument takes NAME=VALUE, not '=1'"),
            (["--argument", "n=1", "--argument", "n=2"], "--argument names 'n' twice"),
            (["--name", "a", "--name", "b"], "--name is given twice"),
        ])
    func usage(words: [String], complaint: String) throws {
        let ending = try ProgramEnding(of: "pushwake", ["inspect", "--store", path] + words)
        #expect(ending.status == 64 && ending.complaint.contains(complaint), "\(ending)")
    }

    // MARK: Why

    @Test("W8 inspect says that a handler waits for its call, a signal, and until when")
    func calls() throws {
        let ids = try store.step { step in
            [
                try step.bind(thank()), try step.bind(thank(), key: "k"), try step.bindStanding(thank()),
                try step.bind(thank(), timeout: .seconds(30)),
                try step.bind(thank(), timeout: nil, deadline: step.now + .seconds(300)),
                try step.schedule(thank(), after: .seconds(60)),
                try step.schedule(thank(), after: .seconds(60), every: .seconds(120)),
            ].map(\.rawValue)
        }
        let sentences = [
            "waits for its call", "waits for its call, or a signal to the key 'k'",
            "waits for each of its calls",
            "waits for its call; its timeout is in 30 s of connected time",
            "waits for its call; its deadline is in 5 min", "waits for its time in 1 min",
            "waits for its time in 1 min, and then every 2 min",
        ]
        for (id, sentence) in zip(ids, sentences) { #expect(try why(id) == sentence) }
        clock.advance(by: .seconds(400))
        #expect(
            try why(ids[4])
                == "waits for its call; its deadline passed 1 min 40 s ago, and it waits for a runner (no process runs one now)"
        )
        #expect(
            try why(ids[5]) == "its time came 5 min 40 s ago; waits for a runner (no process runs one now)")
        try store.step { step in
            try step.execute("INSERT INTO connected_clock(scope, connected, credited) VALUES ('', 30000, 0)")
        }
        #expect(
            try why(ids[3])
                == "waits for its call; its connected time is over, and it waits for a runner (no process runs one now)"
        )
    }

    @Test("W8 inspect says for which runner a handler waits, and whether there is one")
    func runners() throws {
        let id = try store.step { step in
            let id = try step.schedule(thank(), after: .zero, in: HandlerScope(rawValue: "shop"))
            _ = try step.schedule(thank(), after: .zero)
            try step.execute("UPDATE handler SET lane = 1 WHERE id = ?", id)
            return id
        }
        let start = "its time came 0 ms ago; waits for a runner"
        #expect(
            try why(id)
                == "\(start) of a main program, for the scope 'shop' (no process is connected in it now)")
        let slot = try #require(StoreProcess.all(of: path).first?.slot)
        try store.step { step in
            try step.execute("UPDATE handler SET lane = 0")
            try step.execute("INSERT INTO connected_slot(scope, slot) VALUES ('shop', ?)", slot)
        }
        #expect(try why(id) == "\(start) of the scope 'shop'")
        #expect(try why(id.rawValue + 1) == "\(start) (no process runs one now)")
        // A slot whose process is gone does not count.
        try store.step { try $0.execute("UPDATE connected_slot SET slot = 99") }
        #expect(try why(id) == "\(start) of the scope 'shop' (no process is connected in it now)")
        let copy = folder.path + "/copy.db"
        _ = try store.step {
            try $0.execute(
                "INSERT INTO handler(name, version, arguments, kind, bound_at) VALUES ('a.b', 1, '{}', 0, 1)")
        }
        try FileManager.default.copyItem(atPath: path, toPath: copy)
        try FileManager.default.copyItem(atPath: path + "-wal", toPath: copy + "-wal")
        let copied = try StoreContents(
            StoreReader(path: copy, schemas: Account.schemas, time: clock.timeSource), limit: 5)
        #expect(
            copied.handlers.shown.first?.why
                == "\(start) of the scope 'shop' (no process has the store open)")
    }

    @Test("W8 inspect says that a handler is tried again, invalidated, parked, quarantined or run, and why")
    func failures() throws {
        let (failing, child, parked, quarantined, running, gone) = try store.step { step in
            let failing = try step.bind(Failing().durable)
            _ = try step.end(failing, .result, with: fired)
            // Without the spread of its policy.
            try step.execute("UPDATE handler SET due = ? WHERE id = ?", step.now + .seconds(20), failing)
            let child = try step.bind(thank())
            let parent = try step.join(Confirm().durable, when: .all, of: [AnyHandlerID(child)])
            try step.invalidate(parent, reason: .cancelled)
            func set(_ state: Transaction.State, _ reason: String?, _ lease: Int?) throws -> HandlerID<
                TimerFired
            > {
                let id = try step.bind(thank())
                try step.execute(
                    "UPDATE handler SET state = ?, reason = ?, lease = ? WHERE id = ?", state.rawValue,
                    reason,
                    lease, id)
                return id
            }
            return (
                failing, child, try set(.parked, "no handler named 'x'", nil),
                try set(.quarantined, "it broke", nil), try set(.leased, nil, 0), try set(.leased, nil, 77)
            )
        }
        #expect(try why(failing) == "waits for attempt 2 in 20 s: the printer is on fire")
        #expect(
            try why(child)
                == "waits for a runner (no process runs one now), which invalidates it (cancelled)")
        #expect(try why(parked) == "waits for a program that knows it: no handler named 'x'")
        #expect(try why(quarantined) == "waits for a person, who requeues or discards it: it broke")
        let slot = try #require(StoreProcess.all(of: path).first?.slot)
        try store.step { try $0.execute("UPDATE handler SET lease = ? WHERE lease = 0", slot) }
        #expect(try why(running) == "is run by process \(getpid())")
        #expect(
            try why(gone)
                == "was run by a process that is gone; waits for another process, which frees it")
        clock.advance(by: .seconds(20))
        #expect(
            try why(failing)
                == "waits for a runner (no process runs one now), which makes attempt 2: the printer is on fire"
        )
    }

    @Test("W8 inspect says for which handlers one waits, and for how many results")
    func joins() throws {
        let (all, any, many) = try store.step { step in
            func children(_ count: Int) throws -> [AnyHandlerID] {
                try (0..<count).map { _ in AnyHandlerID(try step.bind(thank())) }
            }
            let all = try step.join(Confirm().durable, when: .all, of: children(2))
            let any = try step.join(
                Confirm().durable, when: .quorum(2), of: children(3), timeout: .seconds(9))
            return (all, any, try step.join(Confirm().durable, when: .all, of: children(7)))
        }
        let name = "filter-test.thank"
        #expect(try why(all) == "waits for the end of 2 handlers: 1 \(name), 2 \(name)")
        #expect(
            try why(any)
                == "waits for 2 results of 3 handlers: 4 \(name), 5 \(name), 6 \(name); its timeout is in 9 s of connected time"
        )
        let last = try why(many)
        #expect(last?.hasSuffix("12 \(name) and 2 more") == true, "\(last ?? "")")
        try store.step { step in
            _ = try step.end(HandlerID<TimerFired>(rawValue: 1), .result, with: fired)
            _ = try step.end(HandlerID<TimerFired>(rawValue: 4), .result, with: fired)
        }
        #expect(try why(all) == "waits for the end of 1 handler: 2 \(name)")
        #expect(try why(any)?.hasPrefix("waits for 1 result of 2 handlers: 5 \(name), 6 \(name);") == true)
    }

    @Test("W8 inspect says for what a workflow waits, and when a calendar calls")
    func workflowsAndCalendars() throws {
        let (errand, timer) = try store.step { step in
            (
                try step.start(Errand().durable),
                try step.schedule(thank(), on: CalendarRule("0 * * * *", in: "UTC"))
            )
        }
        let runner = try HandlerRunner(store)
        defer { runner.close() }
        try runner.runDue()
        let waiter = try #require(try store.read { try $0.status(ofKey: "payment-17") })
        #expect(
            try why(errand)
                == "is a workflow that waits for 'signal payment-17' at place 0 of its journal (handler \(waiter.id))"
        )
        #expect(try why(timer)?.hasSuffix(", and then by '0 * * * *' in UTC") == true)
        try store.step { try $0.pause(timer) }
        #expect(try why(timer) == "is paused; called by '0 * * * *' in UTC once it is resumed")
    }

    @Test("W8 inspect says for which answer or acknowledgement of the account a handler waits")
    func account() throws {
        let (asking, sending) = try store.step { step in
            let (asking, sending) = (try step.bind(thank()), try step.bind(thank()))
            try step.execute("INSERT INTO account(id, jid) VALUES (1, 'alice@localhost')")
            try step.execute("INSERT INTO session(account, connected_time) VALUES (1, 1000)")
            try step.execute(
                "INSERT INTO request VALUES (1, 'q1', 'bob@localhost/peer', 3, ?, 61000, 0, NULL, NULL)",
                asking)
            try step.execute(
                "INSERT INTO outbox(account, kind, stanza_id, xml, created_at, handler) VALUES (1, 0, 'm1', '<m/>', 1, ?)",
                sending)
            return (asking, sending)
        }
        #expect(
            try why(asking)
                == "waits for the answer of bob@localhost/peer to the request 'q1'; its timeout is in 1 min of connected time"
        )
        #expect(try why(sending) == "waits for the acknowledgement of the stanza 'm1'")
    }
}
