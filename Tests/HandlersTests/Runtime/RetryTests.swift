import Handlers
import HandlersTestKit
import TestThreads
import TestSupport
import Testing

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct RetryTests {
    @Test("H13 a failing handler is tried again when its time comes, with input, arguments and overrides")
    func again() throws {
        try withRig([Flaky<Standard>.self]) { rig in
            let workshop = Workshop()
            try rig.runner.attach(workshop)
            let id = try rig.store.bind(Flaky<Standard>(name: "bound", until: 3).durable)
            let disposition = try rig.end(
                id, with: Job("word", in: workshop), overriding: Record(["name": .string("called")]))
            let first = try #require(try rig.status(of: id)?.dueAt).milliseconds
            #expect(disposition == .retrying(at: Timestamp(milliseconds: first), reason: "called failed 1"))
            #expect((1000...1200).contains(first - rig.now))
            #expect(try rig.status(of: id)?.state == .pending)
            #expect(try rig.status(of: id)?.attempts == 1)
            #expect(try rig.status(of: id)?.reason == "called failed 1")
            rig.clock.advance(by: .milliseconds(first - rig.now - 1))
            #expect(try rig.runner.runDue() == .milliseconds(1))
            #expect(try rig.status(of: id)?.attempts == 1, "a millisecond too early")
            try rig.runWhenDue(id)
            #expect(try rig.status(of: id)?.attempts == 2)
            #expect(
                (4000...4800).contains(try #require(try rig.status(of: id)?.dueAt).milliseconds - rig.now))
            #expect(try rig.store.notes() == [], "what a failing attempt wrote is undone")
            try rig.runWhenDue(id)
            #expect(try rig.store.notes() == ["called word workshop 3"])
            #expect(try rig.store.keptEnding(of: id)?.outcome == .result)
            #expect(try rig.handlers() == [])
        }
    }

    @Test("H13 after its last attempt a handler goes to quarantine with the last error, and stays there")
    func exhausted() throws {
        try withRig([Flaky<Thrice>.self]) { rig in
            let id = try rig.store.bind(Flaky<Thrice>(name: "a").durable)
            try rig.end(id)
            try rig.runWhenDue(id)
            #expect(try rig.status(of: id)?.state == .pending)
            try rig.runWhenDue(id)
            let status = try #require(try rig.status(of: id))
            #expect(status.state == .quarantined)
            #expect(status.attempts == 3)
            #expect(status.reason == "a failed 3")
            #expect(status.dueAt == nil)
            rig.clock.advance(by: .seconds(1_000_000))
            try rig.runner.runDue()
            #expect(try rig.status(of: id)?.attempts == 3)
        }
    }

    @Test("H13 a policy without a wait tries all attempts in one pass")
    func atOnce() throws {
        try withRig([Flaky<AtOnce>.self]) { rig in
            let good = try rig.store.bind(Flaky<AtOnce>(name: "a", until: 4).durable)
            let bad = try rig.store.bind(Flaky<AtOnce>(name: "b").durable)
            try rig.end(good)
            try rig.end(bad)
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["a go - 4"])
            #expect(try rig.handlers().map(\.state) == [.quarantined])
        }
    }

    @Test("H13 the policy never: the first error sends it to quarantine, with its input")
    func never() throws {
        try withRig([Flaky<Never>.self]) { rig in
            let id = try rig.store.bind(Flaky<Never>(name: "a").durable)
            #expect(try rig.end(id) == .quarantined(reason: "a failed 1"))
            #expect(try rig.store.waiting().map(\.input) == [[UInt8]("go".utf8)])
        }
    }

    private struct Throwing: Handler {
        static let id = "test.throwing"
        var code: String
        func run(_ call: borrowing Call<Job>) throws {
            throw HandlerError(.init(rawValue: code), "because \(code)")
        }
    }

    @Test(
        "H13 an error that another attempt cannot mend leads to quarantine at once",
        arguments: [
            ErrorCode<HandlerError>.upcastFailed, .wrongArgument, .missingArgument, .wrongContext,
            .contextNotRestorable, .argumentNotEncodable, .nestedTooDeep, .noSuchHandler,
        ])
    func hopeless(_ code: ErrorCode<HandlerError>) throws {
        try withRig([Throwing.self]) { rig in
            let id = try rig.store.bind(Throwing(code: code.rawValue).durable)
            #expect(try rig.end(id) == .quarantined(reason: "because \(code)"))
        }
    }

    @Test(
        "H13 an error that may pass is tried again",
        arguments: [
            ErrorCode<HandlerError>.missingInstance, .sql, .storageFailed, .databaseLocked,
            .init(rawValue: "new"),
        ])
    func hopeful(_ code: ErrorCode<HandlerError>) throws {
        try withRig([Throwing.self]) { rig in
            let id = try rig.store.bind(Throwing(code: code.rawValue).durable)
            guard case .retrying = try rig.end(id) else {
                Issue.record("\(String(describing: try rig.status(of: id)))")
                return
            }
        }
    }

    private struct Brief: Handler {
        static let id = "test.brief"
        var fails = true
        func run(_ call: borrowing Call<Fleeting>) throws {
            if fails { throw Failure() }
            try call.step.note(call.word)
        }
    }

    @Test("H13 a call that cannot be kept is not tried again; requeued, the handler waits to be called")
    func notRestorable() throws {
        try withRig([Brief.self]) { rig in
            let id = try rig.store.bind(Brief().durable)
            let disposition = try rig.store.step { try $0.end(id, .result, with: Fleeting()) }
            let reason = "the handler did not want to; not retried: Fleeting is not a RestorableContext"
            #expect(disposition == .quarantined(reason: reason))
            #expect(try rig.status(of: id)?.reason == reason)
            let failure = try #require(
                try rig.store.read { try $0.first("SELECT payload FROM event") { $0.text(0) } })
            #expect(failure.contains("not retried: Fleeting is not a RestorableContext"))
            try rig.store.step { try $0.requeue(id) }
            let status = try #require(try rig.status(of: id))
            #expect(status.state == .pending)
            #expect(status.dueAt == nil)
            #expect(status.attempts == 0)
            #expect(status.reason == nil)
            try rig.runner.runDue()
            #expect(try rig.status(of: id)?.state == .pending)
            let mended = Record(["fails": .bool(false)])
            try rig.store.step { try $0.end(id, .result, with: Fleeting(), overriding: mended) }
            #expect(try rig.store.notes() == ["now"])
        }
    }

    /// A context that says how it is stored, and cannot be.
    private struct Unstorable: RestorableContext {
        static let storage = ContextStorage<Unstorable>(
            encode: { _ in throw Failure(description: "no room") }, decode: { _, _ in Unstorable() })
    }

    private struct Stuck: Handler {
        static let id = "test.stuck"
        func run(_ call: borrowing Call<Unstorable>) throws { throw Failure() }
    }

    @Test("H13 the reason says that a context could not be stored for another attempt, and why")
    func unstorable() throws {
        try withRig([Stuck.self]) { rig in
            let id = try rig.store.bind(Stuck().durable)
            #expect(
                try rig.store.step { try $0.end(id, .result, with: Unstorable()) }
                    == .quarantined(
                        reason:
                            "the handler did not want to; not retried: Unstorable cannot be stored (no room)")
            )
        }
    }

    @Test("H13 a handler that is not to be tried again says nothing about its context")
    func neverRetried() throws {
        try withRig([Once.self]) { rig in
            let id = try rig.store.bind(Once().durable)
            #expect(
                try rig.store.step { try $0.end(id, .result, with: Fleeting()) }
                    == .quarantined(reason: "the handler did not want to"))
        }
    }

    private struct Once: Handler {
        static let id = "test.once"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<Fleeting>) throws { throw Failure() }
    }

    @Test("H13 an answer that comes while the handler waits for its next attempt ends it at once, and once")
    func endedMeanwhile() throws {
        try withRig([Flaky<Standard>.self]) { rig in
            let id = try rig.store.bind(Flaky<Standard>(name: "a", until: 2).durable)
            try rig.end(id, with: Job("first"))
            #expect(try rig.end(id, with: Job("second")) == .ended)
            rig.clock.advance(by: .seconds(100))
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["a second - 2"])
        }
    }

    // MARK: Whose policy counts

    @Test("H13 when a handler's argument fails, the argument's own policy counts")
    func nestedPolicy() throws {
        try withRig([Relay<Standard>.self, Relay<Never>.self, Flaky<Standard>.self, Flaky<Never>.self]) {
            rig in
            let impatient = try Relay<Standard>(then: Flaky<Never>(name: "a").durable).durable
            #expect(try rig.end(try rig.store.bind(impatient)) == .quarantined(reason: "a failed 1"))
            let patient = try Relay<Never>(then: Flaky<Standard>(name: "b", until: 1).durable).durable
            #expect(try rig.end(try rig.store.bind(patient)) == .ended)
            let failing = try Relay<Never>(then: Flaky<Standard>(name: "c").durable).durable
            guard case .retrying = try rig.end(try rig.store.bind(failing)) else {
                Issue.record("the argument's policy was not asked")
                return
            }
        }
    }

    /// Ends another handler, then throws.
    private struct EndsAndThrows: Handler {
        static let id = "test.ends-and-throws"
        var other: HandlerID<Job>
        var first: Durable<Job>?

        func run(_ call: borrowing Call<Job>) throws {
            if let first { try? call.step.run(first, with: call.context) }
            try call.step.end(other, .result, with: call.context)
            throw Failure(description: "outer")
        }
    }

    @Test(
        "H13 the policy of a handler that was ended and quarantined inside another does not count for that")
    func policyOfEnded() throws {
        try withRig([EndsAndThrows.self, Relay<Standard>.self, Flaky<Never>.self]) { rig in
            let other = try rig.store.bind(Relay<Standard>(then: Flaky<Never>(name: "a").durable).durable)
            let id = try rig.store.bind(EndsAndThrows(other: other).durable)
            guard case .retrying(_, let reason) = try rig.end(id) else {
                Issue.record("the policy of another handler was taken")
                return
            }
            #expect(reason == "outer")
        }
    }

    @Test("H13 the policy of an argument that failed counts, whatever the handler did after it")
    func policyOfSwallowed() throws {
        try withRig([EndsAndThrows.self, Say.self, Flaky<Never>.self]) { rig in
            let other = try rig.store.bind(Say(name: "b").durable)
            let id = try rig.store.bind(
                EndsAndThrows(other: other, first: Flaky<Never>(name: "a").durable).durable)
            #expect(try rig.end(id) == .quarantined(reason: "a failed 1"))
            #expect(try rig.status(of: other)?.state == .pending)
        }
    }

    // MARK: What else is tried again

    @Test("H13 an invalidation that fails is tried again, with reason, overrides and environment")
    func invalidation() throws {
        try withRig([Say.self, FlakyEnd<Thrice>.self]) { rig in
            let workshop = Workshop()
            try rig.runner.attach(workshop)
            let orElse = try FlakyEnd<Thrice>(name: "bound", until: rig.now + 15_000).durable
            let id = try rig.store.bind(Say(name: "a").durable, orElse: orElse)
            let disposition = try rig.invalidate(
                id, .sessionLost, overriding: Record(["name": .string("called")]), in: workshop)
            guard case .retrying(let due, "called failed") = disposition else {
                Issue.record("\(disposition)")
                return
            }
            #expect((10_000...12_000).contains(due.milliseconds - rig.now))
            try rig.runWhenDue(id)
            #expect(try rig.status(of: id)?.attempts == 2)
            try rig.runWhenDue(id)
            #expect(try rig.store.notes() == ["called test.say session-lost workshop"])
            let ending = try #require(try rig.store.keptEnding(of: id))
            #expect(ending.outcome == .invalidated)
            #expect(ending.reason == .sessionLost)
        }
    }

    @Test("H13 a timeout whose invalidation fails is still a timeout when it is tried again")
    func timeout() throws {
        try withRig([Say.self, FlakyEnd<Thrice>.self]) { rig in
            let durable = try Say(name: "a").durable.orElse(
                FlakyEnd<Thrice>(name: "b", until: rig.now + 15_000).durable)
            let id = try rig.store.step {
                try $0.bind(durable, timeout: nil, deadline: rig.clock.wall + .seconds(5))
            }
            try rig.runWhenDue(id)
            #expect(try rig.status(of: id)?.attempts == 1)
            try rig.runWhenDue(id)
            #expect(try rig.store.notes() == ["b test.say timed-out -"])
            #expect(try rig.store.keptEnding(of: id)?.outcome == .timeout)
        }
    }

    @Test("H13 a failing call of a standing handler is tried again in a row of its own; the handler goes on")
    func standing() throws {
        try withRig([Flaky<Standard>.self]) { rig in
            let id = try rig.store.step { try $0.bindStanding(Flaky<Standard>(name: "a", until: 2).durable) }
            for word in ["x", "y"] {
                let disposition = try rig.store.step { try $0.call(id, with: Job(word)) }
                guard case .retrying = disposition else {
                    Issue.record("\(disposition)")
                    return
                }
            }
            let rows = try rig.handlers()
            #expect(rows.map(\.isStanding) == [true, false, false])
            #expect(rows.map(\.attempts) == [0, 1, 1])
            #expect(rows.map(\.trace) == rows.map(\.id), "each call is a chain of its own")
            #expect(rows[1].dueAt != rows[2].dueAt, "they do not come back together")
            rig.clock.advance(by: .seconds(2))
            try rig.runner.runDue()
            #expect(Set(try rig.store.notes()) == ["a x - 2", "a y - 2"])
            #expect(try rig.handlers().map(\.id) == [AnyHandlerID(id)])
            #expect(try rig.store.keptEnding(of: rows[1].id)?.outcome == .result)
        }
    }

    @Test("H13 a failing timer is tried again, and still knows when it was due")
    func timer() throws {
        try withRig([FlakyTimer.self]) { rig in
            let due = rig.now + 60_000
            let id = try rig.store.step {
                try $0.schedule(FlakyTimer(name: "a", until: 3).durable, after: .seconds(60))
            }
            for _ in 0..<3 { try rig.runWhenDue(id) }
            #expect(try rig.store.notes() == ["a \(due) 0 3"])
            #expect(try rig.store.keptEnding(of: id)?.outcome == .result)
        }
    }

    @Test("H13 a periodic timer keeps its period while one of its calls is tried again")
    func periodicTimer() throws {
        try withRig([FlakyTimer.self]) { rig in
            let start = rig.now
            let id = try rig.store.step {
                try $0.schedule(
                    FlakyTimer(name: "a", until: 2).durable, after: .seconds(60), every: .seconds(60))
            }
            try rig.runWhenDue(id)
            #expect(try rig.status(of: id)?.dueAt?.milliseconds == start + 120_000)
            #expect(try rig.status(of: id)?.attempts == 0)
            try rig.runWhenDue(try #require(try rig.handlers().last).id)
            #expect(try rig.store.notes() == ["a \(start + 60_000) 0 2"])
            try rig.runWhenDue(id)
            try rig.runWhenDue(try #require(try rig.handlers().last).id)
            #expect(
                try rig.store.notes() == ["a \(start + 60_000) 0 2", "a \(start + 120_000) 0 2"])
        }
    }

    @Test("H13 retries come in the order in which they are due")
    func order() throws {
        try withRig([Flaky<Thrice>.self]) { rig in
            for name in ["a", "b", "c", "d", "e"] {
                try rig.end(try rig.store.bind(Flaky<Thrice>(name: name, until: 2).durable))
            }
            let expected = try rig.handlers().sorted {
                ($0.dueAt?.milliseconds ?? 0) < ($1.dueAt?.milliseconds ?? 0)
            }.map { status in
                "\(try #require(status.reason).prefix(1)) go - 2"
            }
            rig.clock.advance(by: .seconds(60))
            try rig.runner.runDue()
            #expect(try rig.store.notes() == expected)
        }
    }

    // MARK: Between processes and failures of the store

    @Test("H13 another process goes on where the one before it left off: attempts, wait, input, overrides")
    func nextProcess() throws {
        try withFolder { folder in
            let clock = VirtualClock()
            var waiting: HandlerID<Job>?
            try withRig(folder.file(), [Flaky<Thrice>.self], clock: clock) { rig in
                let id = try rig.store.bind(Flaky<Thrice>(name: "a", until: 3).durable)
                try rig.end(id, with: Job("word"), overriding: Record(["name": .string("b")]))
                waiting = id
            }
            let id = try #require(waiting)
            for attempt in 1...2 {
                try withRig(folder.file(), [Flaky<Thrice>.self], clock: clock) { rig in
                    #expect(try rig.status(of: id)?.attempts == attempt)
                    try rig.runner.runDue()
                    #expect(try rig.status(of: id)?.attempts == attempt, "not before its time")
                    try rig.runWhenDue(id)
                    if attempt == 2 { #expect(try rig.store.notes() == ["b word - 3"]) }
                }
            }
        }
    }

    @Test(
        "H13 a disk that is full while a retry runs is not its fault: no attempt is counted, nothing lost",
        .sqliteOnly)
    func fullDisk() throws {
        try withRig([Big.self]) { rig in
            let id = try rig.store.bind(Big().durable)
            try rig.end(id)
            let used = try #require(try rig.store.integer("PRAGMA page_count"))
            _ = try rig.store.integer("PRAGMA max_page_count = \(used + 2)")
            #expect(throws: HandlerError.self) { try rig.runWhenDue(id) }
            #expect(try rig.status(of: id)?.attempts == 1)
            _ = try rig.store.integer("PRAGMA max_page_count = 100000")
            try rig.runner.runDue()
            #expect(try rig.store.keptEnding(of: id)?.outcome == .result)
            #expect(try rig.store.notes().map(\.count) == [100_000])
        }
    }

    @Test(
        "H13 a disk that is full while a failing handler is quarantined gives the step up; it waits as before",
        .sqliteOnly
    )
    func fullWhileQuarantining() throws {
        try withRig([Flaky<Standard>.self]) { rig in
            let id = try rig.store.bind(Flaky<Standard>(name: "a").durable)
            let used = try #require(try rig.store.integer("PRAGMA page_count"))
            _ = try rig.store.integer("PRAGMA max_page_count = \(used)")
            let word = String(repeating: "x", count: 100_000)
            #expect(code { try rig.end(id, with: Job(word)) } == .storageFailed)
            #expect(try rig.store.waiting().map(\.attempts) == [0])
            _ = try rig.store.integer("PRAGMA max_page_count = 100000")
            guard case .retrying = try rig.end(id, with: Job(word)) else {
                Issue.record("it was not set aside")
                return
            }
            #expect(try rig.store.waiting().map(\.input.count) == [100_000])
        }
    }

    /// Fails at first, then writes much.
    private struct Big: Handler {
        static let id = "test.big"
        func run(_ call: borrowing Call<Job>) throws {
            if call.attempt == 1 { throw Failure() }
            try call.step.note(String(repeating: "x", count: 100_000))
        }
    }
}
