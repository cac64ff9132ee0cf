import Handlers
import HandlersTestKit
import Synchronization
import TestSupport
import TestThreads
import Testing

/// Binds what its word says, in its call.
private struct Bind: Handler {
    static let id = "chains.bind"
    static let retry = RetryPolicy(attempts: 2, firstDelay: .zero)
    var what: String
    func run(_ call: borrowing Call<TimerFired>) throws { try ChainLimitTests.bind(what, in: call.step) }
}

/// Binds what its word says, where another handler is invalidated.
private struct BindInstead: Handler {
    static let id = "chains.bind-instead"
    var what: String
    func run(_ call: borrowing Call<Invalidation>) throws { try ChainLimitTests.bind(what, in: call.step) }
}

private struct Paid: Handler {
    static let id = "chains.paid"
    func run(_ call: borrowing Call<SignalReceived<Int>>) throws { try call.step.note("paid") }
}

private struct Met: Handler {
    static let id = "chains.met"
    func run(_ call: borrowing Call<Joined>) throws { try call.step.note("met") }
}

/// Runs until its task is canceled.
private struct Work: AsyncHandler {
    static let id = "chains.work"
    static let retry = RetryPolicy.never
    static let starts = Atomic(0)
    static let cancellations = Atomic(0)
    func run(_ call: AsyncCall<TimerFired>) async throws {
        Self.starts.add(1, ordering: .relaxed)
        defer { if Task.isCancelled { Self.cancellations.add(1, ordering: .relaxed) } }
        while true { try await Task.sleep(for: .milliseconds(1)) }
    }
}

/// Ends at once, and binds a timer with its ending.
private struct Errand: AsyncHandler {
    static let id = "chains.errand"
    func run(_ call: AsyncCall<TimerFired>) async throws {
        try call.end { try ChainLimitTests.bind("timer", in: $0) }
    }
}

private struct Wait: Workflow {
    static let id = "chains.wait"
    func run(_ flow: Flow) async throws -> Int? {
        try await flow.compensate(with: BindInstead(what: "timer").durable)
        try await flow.run(Bind(what: "nothing").durable)
        return try await flow.signal("never", as: Int.self)
    }
}

/// A handler of a module, which holds one of the program.
private struct Answered: Handler {
    static let id = "module.answered"
    static let retry = RetryPolicy(attempts: 2, firstDelay: .seconds(100))
    var then: Durable<Job>?
    var fails = false
    func run(_ call: borrowing Call<Job>) throws {
        if fails { throw Failure() }
        if let then { try call.step.run(then, with: call.context) }
    }
}

private struct ModuleTimer: Handler {
    static let id = "module.timer"
    func run(_ call: borrowing Call<TimerFired>) throws { try ChainLimitTests.bind("timer", in: call.step) }
}

private struct BindWhenCalled: Handler {
    static let id = "chains.bind-when-called"
    static let retry = RetryPolicy(attempts: 3, firstDelay: .seconds(100), factor: 1)
    var what: String
    func run(_ call: borrowing Call<Job>) throws {
        if call.word == "fail" { throw Failure() }
        try ChainLimitTests.bind(what, in: call.step)
    }
}

/// Known to the next version of the program only.
private struct Later: Handler {
    static let id = "chains.later"
    func run(_ call: borrowing Call<TimerFired>) throws {}
}

@Suite(.serialized, .ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct ChainLimitTests
{
    private static let handlers: [any DurableHandler.Type] = [
        Bind.self, BindInstead.self, BindWhenCalled.self, Paid.self, Met.self, Work.self, Errand.self,
        Wait.self, Gone.self,
        Say.self, Drop.self, Flaky<Thrice>.self, FlakyTimer.self, FlakyEnd<AtOnce>.self,
        FlakyEnd<Thrice>.self,
    ]
    private static let module = Schema(
        module: "module", migrations: [], handlers: [Answered.self, ModuleTimer.self])

    private static var visits: (starts: Int, cancellations: Int) {
        (Work.starts.load(ordering: .relaxed), Work.cancellations.load(ordering: .relaxed))
    }

    private static func gone(_ name: String) throws -> Durable<Invalidation> { try Gone(name: name).durable }

    /// Binds a handler that waits for longer than any limit here, and says when it is invalidated.
    static func bind(_ what: String, in step: borrowing Step) throws {
        let timer = try FlakyTimer(name: what).durable.orElse(gone(what))
        switch what {
        case "nothing": break
        case "timer": try step.schedule(timer, after: .seconds(1000))
        case "unlimited": try step.withChainLimit(nil) { try step.schedule(timer, after: .seconds(1000)) }
        case "sooner":
            try step.withChainLimit(.seconds(10)) { try step.schedule(timer, after: .seconds(1000)) }
        case "longer":
            try step.withChainLimit(.seconds(600)) { try step.schedule(timer, after: .seconds(1000)) }
        case "standing": try step.bindStanding(Say(name: what).durable.orElse(gone(what)))
        case "periodic": try step.schedule(timer, after: .seconds(1000), every: .seconds(1000))
        case "calendar": try step.schedule(timer, on: CalendarRule("0 9 1 1 *", in: "UTC"))
        case "kept": try step.bind(BindWhenCalled(what: "timer").durable.orElse(gone(what)))
        case "timeout": try step.bind(Say(name: what).durable.orElse(gone(what)), timeout: .seconds(1000))
        case "signal": try step.bind(Paid().durable.orElse(gone(what)), key: what)
        case "retry": try step.schedule(timer, after: .zero)
        case "lane":
            try step.setLane(LaneRule("full", rate: LaneRate(1, per: .seconds(1000))))
            for name in ["placed", "waits"] {
                try step.enqueue(
                    Flaky<Thrice>(name: name).durable.orElse(gone(name)), with: Job(),
                    lane: LanePlace("full"))
            }
        case "join":
            let child = AnyHandlerID(
                try step.bind(Say(name: "child").durable.orElse(gone("child")), key: "c"))
            try step.join(Met().durable.orElse(gone(what)), when: .all, of: [child])
        case "workflow": try step.start(Wait().durable.orElse(gone(what)))
        case "errand": try step.schedule(Errand().durable, after: .zero)
        case "later": try step.schedule(Later().durable.orElse(gone(what)), after: .zero)
        case "module": try step.schedule(ModuleTimer().durable.orElse(gone(what)), after: .seconds(1000))
        default: throw Failure(description: what)
        }
    }

    /// Starts a chain with a limit of a minute, whose first handler binds something in its call.
    private func start(_ what: String, limit: Duration? = .seconds(60), _ rig: Rig) throws {
        try rig.store.step { step in
            try step.withChainLimit(limit) { _ = try step.schedule(Bind(what: what).durable, after: .zero) }
        }
        try rig.runner.runDue()
    }

    private func run(_ rig: Rig, for time: Duration) throws {
        rig.clock.advance(by: time)
        try rig.runner.runDue()
    }

    /// The rows of chains, of members, and of alarms that have not ended.
    private func rows(_ store: HandlerStore) throws -> [Int64?] {
        try ["chain_limit", "chain_member", "handler WHERE name = 'chain.alarm'"].map {
            try store.integer("SELECT count(*) FROM \($0)")
        }
    }

    private func withRig(schemas: [Schema] = [notes], _ body: (Rig) throws -> Void) throws {
        try withFolder { folder in try withRig(folder.file(), schemas: schemas, body) }
    }

    private func withRig(
        _ path: String, _ clock: VirtualClock = VirtualClock(), schemas: [Schema] = [notes],
        _ body: (Rig) throws -> Void
    ) throws {
        let rig = try Rig(path, Self.handlers, schemas: schemas, clock: clock)
        defer { rig.runner.close() }
        try body(rig)
    }

    // MARK: What ends

    @Test(
        "H23 what is bound in the call of a handler with a chain limit ends when that time is over, whatever it waits for, once, and leaves nothing",
        arguments: [
            ("timer", ["timer gone: test.flaky-timer chain-limit"]),
            ("timeout", ["timeout gone: test.say chain-limit"]),
            ("signal", ["signal gone: chains.paid chain-limit"]),
            ("retry", ["retry gone: test.flaky-timer chain-limit"]),
            (
                "lane",
                ["placed gone: test.flaky.Thrice chain-limit", "waits gone: test.flaky.Thrice chain-limit"]
            ),
            ("join", ["child gone: test.say chain-limit", "join gone: chains.met chain-limit"]),
            ("workflow", ["workflow gone: chains.wait chain-limit"]),
            ("errand", ["timer gone: test.flaky-timer chain-limit"]),
        ])
    func ends(what: String, lines: [String]) async throws {
        try await withFolder { folder in
            let rig = try Rig(folder.file(), Self.handlers)
            defer { rig.runner.close() }
            try start(what, rig)
            if what == "errand" { #expect(try await rig.runner.drain(for: .seconds(60))) }
            try run(rig, for: .milliseconds(59_999))
            func gone() throws -> [String] { try rig.store.notes().filter { $0.contains("gone") } }
            #expect(try gone() == [])
            try run(rig, for: .milliseconds(1))
            #expect(try gone() == lines)
            // What the compensation of the workflow has bound is left.
            let left = what == "workflow" ? 1 : 0
            #expect(try rows(rig.store) == [0, 0, 0])
            #expect(try rig.handlers().count == left)
            let endings = try rig.store.texts(
                "SELECT outcome || ' ' || reason FROM ending WHERE reason = 'chain-limit'")
            #expect(endings.allSatisfy { $0 == "3 chain-limit" } && endings.count >= lines.count)
            for table in ["lane_entry", "handler_key", "handler_join", "join_child", "journal"] {
                #expect(try rig.store.integer("SELECT count(*) FROM \(table)") == 0, "\(table)")
            }
            try run(rig, for: .seconds(500))
            #expect(try gone() == lines)
        }
    }

    @Test("H23 a quarantined or parked handler of the chain ends as well")
    func quarantined() throws {
        try withRig { rig in
            try start("unknown word", rig)
            try start("later", rig)
            let states = try rig.handlers().map(\.state)
            #expect(states.contains(.quarantined) && states.contains(.parked))
            try run(rig, for: .seconds(60))
            #expect(try rig.store.notes() == ["later gone: chains.later chain-limit"])
            #expect(try rows(rig.store) == [0, 0, 0] && rig.handlers().isEmpty)
        }
    }

    @Test(
        "H23 async handlers of a chain end while all leases are taken and in the last attempt, and the one that runs is canceled"
    )
    func leases() async throws {
        try await withFolder { folder in
            let clock = VirtualClock()
            let store = try openStore(folder.file(), Self.handlers, time: clock.timeSource)
            let runner = try HandlerRunner(store, .init(leases: 1))
            defer { runner.close() }
            let (starts, cancellations) = Self.visits
            try runner.start()
            let ids = try store.step { step in
                try step.withChainLimit(.seconds(60)) {
                    try (0..<3).map {
                        try step.schedule(Work().durable.orElse(Self.gone("\($0)")), after: .zero)
                    }
                }
            }
            while Self.visits.starts == starts { try await Task.sleep(for: .milliseconds(2)) }
            clock.advance(by: .seconds(60))
            #expect(try await runner.drain(for: .seconds(60)))
            let lines = (0..<3).map { "\($0) gone: chains.work chain-limit" }
            #expect(try store.notes().sorted() == lines)
            #expect(Self.visits == (starts + 1, cancellations + 1))
            for id in ids { #expect(try store.keptEnding(of: id)?.reason == .chainLimit) }
            #expect(try rows(store) == [0, 0, 0] && store.waiting().isEmpty)
        }
    }

    @Test("H23 the handlers of a scope end where it is served, with their environment")
    func scope() throws {
        try withRig { rig in
            let workshop = Workshop()
            let end = try FlakyEnd<Thrice>(name: "end", until: 0).durable
            try rig.store.step { step in
                try step.withChainLimit(.seconds(60)) {
                    _ = try step.schedule(
                        FlakyTimer(name: "timer").durable.orElse(end), after: .seconds(1000),
                        in: workshop.scope)
                }
            }
            try run(rig, for: .seconds(60))
            #expect(try rig.store.notes() == [] && rows(rig.store) == [0, 0, 0])
            try rig.runner.attach(workshop)
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["end test.flaky-timer chain-limit workshop"])
            #expect(try rig.handlers().isEmpty)
        }
    }

    @Test("H23 a chain of many handlers ends in several steps, each handler once")
    func many() throws {
        try withRig { rig in
            try rig.store.step { step in try step.withChainLimit(.seconds(60)) { _ = try bindMany(in: step) }
            }
            try run(rig, for: .seconds(60))
            #expect(try Set(rig.store.notes()).count == 450 && rig.store.notes().count == 450)
            #expect(try rows(rig.store) == [0, 0, 0] && rig.handlers().isEmpty)
            // Each alarm ends some.
            #expect(
                try rig.store.integer(
                    "SELECT count(*) FROM ending WHERE name = 'chain.alarm' AND outcome = 1")
                    == 3)
        }
    }

    @Test(
        "H23 a handler that waits for others of its chain is not called because their time is over, and all end for that reason",
        arguments: [(JoinRule.all, 300), (.quorum(450), 450)])
    func manyJoined(rule: JoinRule, count: Int) throws {
        try withRig { rig in
            try rig.store.step { step in
                try step.withChainLimit(.seconds(60)) {
                    let ids = try bindMany(in: step)
                    // The quorum cannot be reached when the first one has ended, before the alarm comes to the last ones.
                    try step.join(
                        Met().durable.orElse(Self.gone("join")), when: rule, of: Array(ids.prefix(count)))
                }
            }
            try run(rig, for: .seconds(60))
            let notes = try rig.store.notes()
            #expect(Set(notes).count == 451 && notes.count == 451)
            #expect(notes.allSatisfy { $0.hasSuffix(" chain-limit") })
            #expect(try rows(rig.store) == [0, 0, 0] && rig.handlers().isEmpty)
        }
    }

    @Test(
        "H23 a child that waits for its scope ends for the reason of its chain, also when its join ends first"
    )
    func childOfScope() throws {
        try withRig { rig in
            let workshop = Workshop()
            try rig.store.step { step in
                try step.withChainLimit(.seconds(60)) {
                    let child = try step.bind(
                        Say(name: "child").durable.orElse(Self.gone("child")), timeout: .seconds(1000),
                        in: workshop.scope)
                    try step.join(
                        Met().durable.orElse(Self.gone("join")), when: .all, of: [AnyHandlerID(child)])
                }
            }
            try run(rig, for: .seconds(60))
            #expect(try rig.store.notes() == ["join gone: chains.met chain-limit"])
            try rig.runner.attach(workshop)
            try rig.runner.runDue()
            #expect(try rig.store.notes().last == "child gone: test.say chain-limit")
            #expect(try rows(rig.store) == [0, 0, 0] && rig.handlers().isEmpty)
        }
    }

    private func bindMany(in step: borrowing Step) throws -> [AnyHandlerID] {
        try (0..<450).map { number in
            let paid = try Paid().durable.orElse(Self.gone("\(number)"))
            return AnyHandlerID(try step.bind(paid, key: "\(number)"))
        }
    }

    @Test(
        "H23 an invalidation that fails is tried again like any other, and the end of the time does not start it again"
    )
    func failing() throws {
        try withRig { rig in
            let end = try FlakyEnd<Thrice>(name: "end", until: rig.now + 75_000).durable
            let ids = try rig.store.step { step in
                try step.withChainLimit(.seconds(60)) {
                    try (0..<3).map { _ in
                        try step.schedule(FlakyTimer(name: "t").durable.orElse(end), after: .seconds(1000))
                    }
                }
            }
            try run(rig, for: .seconds(50))
            // It fails three times, before and after the time of its chain is over, and is quarantined.
            try rig.invalidate(ids[2])
            for _ in 0..<50 { try run(rig, for: .seconds(1)) }
            let endings = try rig.store.texts("SELECT reason FROM ending WHERE name = 'test.flaky-timer'")
            #expect(endings == ["chain-limit", "chain-limit"])
            #expect(try rig.handlers().map(\.state) == [.quarantined])
            #expect(try rig.handlers().map(\.attempts) == [3])
            #expect(try rig.store.notes() == Array(repeating: "end test.flaky-timer chain-limit -", count: 2))
            #expect(try rows(rig.store) == [0, 0, 0])
        }
    }

    @Test(
        "H23 a handler of a chain that another row refers to is quarantined when its time is over, and the others end"
    )
    func dangling() throws {
        let asks = Schema(
            module: "asks",
            migrations: [
                "CREATE TABLE ask(handler INTEGER REFERENCES handler(id) DEFERRABLE INITIALLY DEFERRED)"
            ])
        try withRig(schemas: [notes, asks]) { rig in
            try rig.store.step { step in
                try step.withChainLimit(.seconds(60)) {
                    let id = try step.bind(Paid().durable, key: "asked")
                    try step.execute("INSERT INTO ask VALUES (?)", id)
                    try Self.bind("timer", in: step)
                }
            }
            try run(rig, for: .seconds(60))
            #expect(try rig.store.notes() == ["timer gone: test.flaky-timer chain-limit"])
            #expect(try rig.handlers().map(\.state) == [.quarantined])
            try rig.store.step { step in
                try step.execute("DELETE FROM ask")
                try step.requeueAll()
            }
            try rig.runner.runDue()
            #expect(try rig.handlers().isEmpty && rows(rig.store) == [0, 0, 0])
        }
    }

    // MARK: Which limit

    @Test("H23 a chain that ends in time leaves no limit, and its alarm ends with it")
    func inTime() throws {
        try withRig { rig in
            try start("nothing", rig)
            #expect(try rows(rig.store) == [0, 0, 0] && rig.handlers().isEmpty)
            let alarm = try rig.store.step {
                try $0.first("SELECT reason FROM ending WHERE name = 'chain.alarm'") { $0.text(0) }
            }
            #expect(alarm == "cancelled")
            // One that ends before the next one is bound does not take the limit with it.
            try rig.store.step { step in
                try step.withChainLimit(.seconds(60)) {
                    let first = try step.bind(Say(name: "first").durable, key: "first")
                    try step.end(first, .result, with: Job())
                    try Self.bind("timer", in: step)
                }
            }
            try run(rig, for: .seconds(60))
            #expect(try rig.store.notes() == ["first go", "timer gone: test.flaky-timer chain-limit"])
            #expect(try rows(rig.store) == [0, 0, 0] && rig.handlers().isEmpty)
        }
    }

    @Test(
        "H23 a binding may have no limit, or its own, earlier or later one; what bindings hand on is the innermost",
        arguments: [("unlimited", nil), ("sooner", 10), ("longer", 600)] as [(String, Int?)])
    func overriding(what: String, seconds: Int?) throws {
        try withRig { rig in
            let start = rig.now
            try self.start(what, rig)
            let id = try #require(
                try rig.store.step {
                    try $0.first("SELECT id FROM handler WHERE name = 'test.flaky-timer'") {
                        AnyHandlerID(rawValue: $0.integer(0))
                    }
                })
            let deadline = try rig.store.read { try $0.chainDeadline(of: id) }
            #expect(deadline?.milliseconds == seconds.map { start + Int64($0) * 1000 })
            try run(rig, for: .seconds((seconds ?? 700) - 1))
            #expect(try rig.store.notes() == [])
            try run(rig, for: .seconds(1))
            #expect(
                try rig.store.notes()
                    == (seconds == nil ? [] : ["\(what) gone: test.flaky-timer chain-limit"]))
            #expect(try rows(rig.store) == [0, 0, 0])
        }
    }

    @Test(
        "H23 standing handlers, periodic timers and timers of a calendar belong to no chain with a limit",
        arguments: ["standing", "periodic", "calendar"])
    func standing(what: String) throws {
        try withRig { rig in
            try start(what, rig)
            try rig.store.step { step in
                try step.withChainLimit(.seconds(60)) { try Self.bind(what, in: step) }
            }
            #expect(try rows(rig.store) == [0, 0, 0])
            try run(rig, for: .seconds(60))
            #expect(try rig.store.notes() == [] && rig.handlers().count == 2)
        }
    }

    @Test("H23 what an invalidation binds has no limit, also inside of a call that has one")
    func invalidations() throws {
        try withRig { rig in
            let instead = try BindInstead(what: "timer").durable
            try rig.store.step { step in
                try step.withChainLimit(.seconds(60)) {
                    _ = try step.schedule(
                        FlakyTimer(name: "a").durable.orElse(instead), after: .seconds(1000))
                    _ = try step.bind(
                        Drop(held: Say(name: "held").durable.orElse(instead)).durable, timeout: .seconds(1000)
                    )
                }
            }
            try run(rig, for: .seconds(60))
            #expect(try rows(rig.store) == [0, 0, 0])
            #expect(try rig.handlers().map(\.name) == ["test.flaky-timer", "test.flaky-timer"])
            try run(rig, for: .seconds(500))
            #expect(try rig.store.notes() == [] && rig.handlers().count == 2)
        }
        // In the call of a handler that has not ended.
        try withRig { rig in
            let instead = try BindInstead(what: "timer").durable
            try rig.store.step { step in
                try step.withChainLimit(.seconds(60)) {
                    let id = try step.bind(
                        Drop(held: Say(name: "held").durable.orElse(instead)).durable, timeout: .seconds(1000)
                    )
                    try step.end(id, .result, with: Job())
                }
            }
            #expect(try rows(rig.store) == [0, 0, 0] && rig.handlers().count == 1)
        }
    }

    @Test("H23 what the compensation of a workflow binds has no limit, also when the workflow ends in time")
    func compensations() throws {
        try withRig { rig in
            try start("workflow", rig)
            while try rig.runner.runDue() == .zero {}
            let workflow = try #require(try rig.handlers().first { $0.name == Wait.id })
            try rig.store.step { _ = try $0.invalidate(workflow.id, reason: .cancelled) }
            while try rig.runner.runDue() == .zero {}
            #expect(try rows(rig.store) == [0, 0, 0])
            try run(rig, for: .seconds(60))
            #expect(try rig.handlers().map(\.name) == ["test.flaky-timer"])
            #expect(try rig.store.notes() == ["workflow gone: chains.wait cancelled"])
        }
    }

    @Test("H23 a handler that is called inside of another binding's limit has its own chain")
    func calledInside() throws {
        try withRig { rig in
            try rig.store.step { step in
                let outside = try step.bind(BindWhenCalled(what: "timer").durable)
                try step.withChainLimit(.seconds(60)) { _ = try step.end(outside, .result, with: Job()) }
            }
            #expect(try rows(rig.store) == [0, 0, 0] && rig.handlers().count == 1)
        }
    }

    // MARK: What is kept by others

    @Test(
        "H23 a handler whose row is kept by the code that calls it does not end by the limit before it is called, and hands it on"
    )
    func kept() throws {
        try withRig { rig in
            try start("kept", rig)
            try start("kept", rig)
            try start("kept", rig)
            let ids = try rig.handlers().filter { $0.name == BindWhenCalled.id }.map {
                HandlerID<Job>(rawValue: $0.id.rawValue)
            }
            #expect(ids.count == 3)
            // One is called in time, and what it binds has the limit.
            try rig.end(ids[0])
            // One fails and waits to be tried again: nobody keeps its row any more.
            try rig.end(ids[1], with: Job("fail"))
            try run(rig, for: .seconds(60))
            #expect(
                try rig.store.notes().sorted() == [
                    "kept gone: chains.bind-when-called chain-limit",
                    "timer gone: test.flaky-timer chain-limit",
                ])
            // One is called late: what it binds ends at once.
            #expect(try rig.handlers().map(\.id) == [AnyHandlerID(ids[2])])
            try rig.end(ids[2])
            try rig.runner.runDue()
            #expect(try rig.store.notes().count == 3 && rig.handlers().isEmpty)
            #expect(try rows(rig.store) == [0, 0, 0])
        }
    }

    @Test(
        "H23 handlers of a module do not end by the limit of the chain in which they are bound, and hand it on"
    )
    func modules() throws {
        try withRig(schemas: [notes, Self.module]) { rig in
            try start("module", rig)
            try rig.store.step { step in
                try step.withChainLimit(.seconds(60)) {
                    let then = try BindWhenCalled(what: "timer").durable
                    _ = try step.bind(Answered(then: then).durable, timeout: .seconds(1000))
                    let failing = try step.bind(Answered(fails: true).durable)
                    try step.end(failing, .result, with: Job())
                }
            }
            let waiting = try rig.handlers().filter { $0.name.hasPrefix("module.") }.map(\.name)
            #expect(waiting == ["module.timer", "module.answered", "module.answered"])
            try run(rig, for: .seconds(60))
            #expect(try rig.handlers().map(\.name) == waiting && rig.store.notes() == [])
            // The failing one is tried again; its chain's time is over, and it has not ended by that.
            try run(rig, for: .seconds(61))
            let statuses = try rig.handlers()
            #expect(statuses.map(\.name) == waiting && statuses[2].state == .quarantined)
            // What they bind belongs to the program.
            try rig.end(HandlerID<Job>(rawValue: statuses[1].id.rawValue))
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["timer gone: test.flaky-timer chain-limit"])
            try rig.store.step { try $0.discard(statuses[2].id) }
            try run(rig, for: .seconds(1000))
            #expect(
                try rig.store.notes() == [
                    "timer gone: test.flaky-timer chain-limit", "timer gone: test.flaky-timer chain-limit",
                ])
            #expect(try rig.handlers().isEmpty)
            #expect(try rows(rig.store) == [0, 0, 0])
        }
    }

    // MARK: Rows

    @Test("H23 a limit without handlers leaves nothing, also where a part of the step is undone")
    func empty() throws {
        try withRig { rig in
            try rig.store.step { step in
                try step.withChainLimit(.seconds(60)) {}
                try? step.withChainLimit(.seconds(60)) { () throws -> Void in throw Failure() }
                try step.withChainLimit(.seconds(60)) {
                    let id = try step.bind(BindWhenCalled(what: "unknown word").durable)
                    try step.end(id, .result, with: Job())
                    try step.discard(id)
                }
            }
            #expect(try rows(rig.store) == [0, 0, 0])
            // What it has bound before it throws has the limit.
            try rig.store.step { step in
                try? step.withChainLimit(.zero) {
                    try Self.bind("timer", in: step)
                    throw Failure()
                }
            }
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["timer gone: test.flaky-timer chain-limit"])
            #expect(try rows(rig.store) == [0, 0, 0])
        }
    }

    @Test("H23 an alarm that is discarded takes nothing with it")
    func discarded() throws {
        try withRig { rig in
            try start("timer", rig)
            let alarms = try rig.handlers().filter { $0.name == "chain.alarm" }
            #expect(alarms.count == 1)
            try rig.store.step { step in for alarm in alarms { try step.discard(alarm.id) } }
            try run(rig, for: .seconds(60))
            #expect(try rig.store.notes() == [])
            let timer = try #require(try rig.handlers().first)
            try rig.store.step { _ = try $0.invalidate(timer.id, reason: .cancelled) }
            #expect(try rig.store.notes() == ["timer gone: test.flaky-timer cancelled"])
            #expect(try rows(rig.store) == [0, 0, 0] && rig.handlers().isEmpty)
        }
    }

    // MARK: Clocks and processes

    @Test("H23 after a time without a process nothing of the chain is called that was due meanwhile")
    func late() throws {
        try withFolder { folder in
            let clock = VirtualClock()
            try withRig(folder.file(), clock) { rig in
                try rig.store.step { step in
                    try step.withChainLimit(.seconds(60)) {
                        _ = try step.schedule(Work().durable.orElse(Self.gone("work")), after: .seconds(10))
                        _ = try step.schedule(
                            Bind(what: "timer").durable.orElse(Self.gone("b")), after: .seconds(10))
                        _ = try step.enqueue(
                            Flaky<Thrice>(name: "f").durable.orElse(Self.gone("f")), with: Job(),
                            lane: LanePlace("lane"))
                        let child = try step.schedule(
                            FlakyTimer(name: "t", until: 1).durable.orElse(Self.gone("t")),
                            after: .seconds(10))
                        try step.join(
                            Met().durable.orElse(Self.gone("met")), when: .all, of: [AnyHandlerID(child)])
                    }
                }
            }
            clock.advance(by: .seconds(60))
            try withRig(folder.file(), clock) { rig in
                while try rig.runner.runDue() == .zero {}
                #expect(
                    try rig.store.notes().sorted() == [
                        "b gone: chains.bind chain-limit", "f gone: test.flaky.Thrice chain-limit",
                        "met gone: chains.met chain-limit", "t gone: test.flaky-timer chain-limit",
                        "work gone: chains.work chain-limit",
                    ])
                #expect(try rig.handlers().isEmpty && rows(rig.store) == [0, 0, 0])
            }
        }
    }

    @Test(
        "H23 the limit goes by the wall clock: one that is set back puts it off, one that is set forward ends the chain"
    )
    func clocks() throws {
        try withRig { rig in
            try start("timer", rig)
            let end = rig.clock.wall + .seconds(60)
            rig.clock.setWall(rig.clock.wall - .seconds(100))
            try run(rig, for: .seconds(159))
            #expect(try rig.store.notes() == [])
            rig.clock.setWall(end)
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["timer gone: test.flaky-timer chain-limit"])
        }
    }

    @Test("H23 a chain ends once in several processes, and the handler that runs in one of them is canceled")
    func processes() async throws {
        try await withFolder { folder in
            let clock = VirtualClock()
            let stores = try (0..<2).map { _ in
                try openStore(folder.file(), Self.handlers, time: clock.timeSource)
            }
            let runners = try stores.map { try HandlerRunner($0) }
            defer { for runner in runners { runner.close() } }
            let (starts, cancellations) = Self.visits
            try runners[0].start()
            let ids = try stores[0].step { step in
                try step.withChainLimit(.seconds(60)) {
                    let work = try Work().durable.orElse(Self.gone("work"))
                    let timer = try FlakyTimer(name: "t").durable.orElse(Self.gone("timer"))
                    return [
                        try step.schedule(work, after: .zero),
                        try step.schedule(timer, after: .seconds(1000)),
                    ]
                }
            }
            while Self.visits.starts == starts { try await Task.sleep(for: .milliseconds(2)) }
            try runners[1].start()
            clock.advance(by: .seconds(60))
            for id in ids { #expect(try await stores[0].ending(of: id).reason == .chainLimit) }
            #expect(await runners[0].close(finishing: .seconds(60)))
            #expect(Self.visits == (starts + 1, cancellations + 1))
            #expect(
                try stores[1].notes() == [
                    "work gone: chains.work chain-limit", "timer gone: test.flaky-timer chain-limit",
                ])
            #expect(try rows(stores[1]) == [0, 0, 0])
        }
    }

    @Test("H23 a process that has no runner leaves the end of its chain to another one")
    func takeover() async throws {
        try await withFolder { folder in
            let clock = VirtualClock()
            let first = try openStore(folder.file(), Self.handlers, time: clock.timeSource)
            let second = try openStore(folder.file(), Self.handlers, time: clock.timeSource)
            let runner = try HandlerRunner(second)
            defer { runner.close() }
            try runner.start()
            let id = try first.step { step in
                try step.withChainLimit(.seconds(60)) {
                    try step.bind(Paid().durable.orElse(Self.gone("paid")), key: "paid")
                }
            }
            clock.advance(by: .seconds(60))
            #expect(try await first.ending(of: id).reason == .chainLimit)
            #expect(try first.notes() == ["paid gone: chains.paid chain-limit"])
            #expect(try rows(first) == [0, 0, 0])
        }
    }
}

/// Invalidates its argument.
private struct Drop: Handler {
    static let id = "chains.drop"
    var held: Durable<Job>
    func run(_ call: borrowing Call<Job>) throws { try call.step.invalidate(held, reason: .cancelled) }
}
