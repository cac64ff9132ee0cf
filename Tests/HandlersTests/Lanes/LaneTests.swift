import HandlersTestKit
import Synchronization
import TestSupport
import TestThreads
import Testing

@testable import Handlers

/// Runs until a test lets it end, by its name.
private struct Hold: AsyncHandler {
    static let id = "lanes.hold"
    static let retry = RetryPolicy(attempts: 2, firstDelay: .zero)
    var name: String

    struct Visits {
        var running: [String] = []
        var most = 0
        var free: Set<String> = []
    }
    static let visits = Mutex(Visits())

    func run(_ call: AsyncCall<Job>) async throws {
        Self.visits.withLock { visits in
            visits.running.append(name)
            visits.most = max(visits.most, visits.running.count)
        }
        defer { Self.leave(name) }
        while !Self.visits.withLock({ $0.free.contains(name) }) {
            try await Task.sleep(for: .milliseconds(1))
        }
        // Its place is free from the commit on, when the next handler may run before this function has returned.
        try call.end { [name] step in
            Self.leave(name)
            try step.note(name)
        }
    }

    private static func leave(_ name: String) {
        visits.withLock { visits in visits.running.removeAll { $0 == name } }
    }

    static func free(_ name: String) { visits.withLock { _ = $0.free.insert(name) } }
    static func reset() { visits.withLock { $0 = Visits() } }
}

/// Fails until its attempt `until`, when its word says so.
private struct Mail: Handler {
    static let id = "lanes.mail"
    static let retry = RetryPolicy(attempts: 3, firstDelay: .seconds(10), factor: 1)
    var name: String
    var until = 1
    func run(_ call: borrowing Call<Job>) throws {
        if call.attempt < until { throw Failure() }
        try call.step.note(name)
    }
}

/// Called when one of several mails is sent.
private struct First: Handler {
    static let id = "lanes.first"
    func run(_ call: borrowing Call<Joined>) throws { try call.step.note("first") }
}

@Suite(.serialized, .ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct LaneTests {
    private static let handlers: [any DurableHandler.Type] = [
        Hold.self, Mail.self, Gone.self, Say.self, First.self,
    ]

    @discardableResult
    private func enqueue(
        _ rig: Rig, _ name: String, until: Int = 1, _ place: LanePlace
    ) throws -> HandlerID<Job> {
        try rig.store.step {
            try $0.enqueue(Mail(name: name, until: until).durable, with: Job(), lane: place)
        }
    }

    private func set(_ rig: Rig, _ rule: LaneRule) throws { try rig.store.step { try $0.setLane(rule) } }

    private func status(_ rig: Rig, _ name: String = "mail") throws -> LaneStatus {
        try rig.store.read { try $0.laneStatus(name) }
    }

    private func run(_ rig: Rig, for time: Duration, step: Duration = .seconds(1)) throws {
        var passed = Duration.zero
        while passed < time {
            try rig.runner.runDue()
            rig.clock.advance(by: step)
            passed += step
        }
        try rig.runner.runDue()
    }

    @Test("H27 a handler that is canceled while it waits in a lane with a rate ends at once")
    func canceledWhileWaiting() throws {
        try withRig(Self.handlers) { rig in
            try set(rig, LaneRule("mail", rate: LaneRate(1, per: .seconds(3600))))
            let mails = try ["a", "b", "c", "d"].map { try enqueue(rig, $0, LanePlace("mail")) }
            try rig.store.step {
                try $0.join(First().durable, when: .any, of: mails.map { AnyHandlerID($0) })
            }
            while try rig.runner.runDue() == .zero {}
            #expect(try rig.store.notes() == ["a", "first"])
            #expect(try rig.handlers().isEmpty)
        }
    }

    // MARK: Concurrency

    @Test(
        "H27 no more async handlers of a lane run than its limit, in all processes; each ending starts the next one in any of them"
    )
    func concurrency() async throws {
        Hold.reset()
        try await withFolder { folder in
            let stores = try (0..<2).map { _ in
                try openStore(folder.file(), Self.handlers, time: TimeSource())
            }
            let runners = try stores.map { try HandlerRunner($0, .init(leases: 8)) }
            defer { for runner in runners { runner.close() } }
            try stores[0].step { step in
                try step.setLane(LaneRule("mail", concurrency: 2))
                for name in ["a", "b", "c", "d", "e"] {
                    try step.enqueue(Hold(name: name).durable, with: Job(), lane: LanePlace("mail"))
                }
            }
            for runner in runners { try runner.start() }
            func running() -> [String] { Hold.visits.withLock { $0.running.sorted() } }
            try await eventually { running() == ["a", "b"] }
            let status = try stores[1].read { try $0.laneStatus("mail") }
            #expect(status.running == 2 && status.waiting == 3 && status.standstill == .full(places: 2))
            #expect(status.description == "mail: 2 running, 3 waiting: all 2 places are taken")
            // Those that wait are due for nobody.
            #expect(try stores[0].integer("SELECT count(*) FROM handler WHERE due IS NOT NULL") == 0)
            Hold.free("b")
            try await eventually { running() == ["a", "c"] }
            for name in ["a", "c", "d", "e"] { Hold.free(name) }
            try await eventually { try stores[0].notes().count == 5 }
            #expect(Hold.visits.withLock { $0.most } == 2)
            #expect(try stores[0].read { try $0.laneStatus("mail") }.running == 0)
            #expect(try stores[0].integer("SELECT count(*) FROM lane_entry") == 0)
        }
    }

    @Test("H14 a runner has no more leases than its limit, also for several scopes in one step")
    func leases() async throws {
        Hold.reset()
        try await withFolder { folder in
            let store = try openStore(folder.file(), Self.handlers, time: TimeSource())
            let runner = try HandlerRunner(store, .init(leases: 2))
            defer { runner.close() }
            let shops = ["a", "b", "c"].map { Workshop($0) }
            let names = shops.flatMap { shop in (1...2).map { "\(shop.scope.rawValue)\($0)" } }
            try store.step { step in
                for (number, name) in names.enumerated() {
                    let id = try step.bind(Hold(name: name).durable)
                    try step.end(id, .result, with: Job(in: shops[number / 2]))
                }
            }
            for shop in shops { try runner.attach(shop) }
            try runner.start()
            try await eventually { Hold.visits.withLock { $0.running.count } >= 2 }
            for name in names { Hold.free(name) }
            try await eventually { try store.notes().count == 6 }
            #expect(Hold.visits.withLock { $0.most } == 2)
        }
    }

    @Test("H27 an invalidated, a discarded and a failed handler free their places")
    func frees() async throws {
        Hold.reset()
        try await withFolder { folder in
            let store = try openStore(folder.file(), Self.handlers, time: TimeSource())
            let runner = try HandlerRunner(store)
            defer { runner.close() }
            try runner.start()
            let ids = try store.step { step in
                try step.setLane(LaneRule("mail", concurrency: 1))
                return try ["a", "b", "c"].map {
                    try step.enqueue(Hold(name: $0).durable, with: Job(), lane: LanePlace("mail"))
                }
            }
            func isRunning(_ name: String) -> Bool { Hold.visits.withLock { $0.running == [name] } }
            try await eventually { isRunning("a") }
            try store.step { _ = try $0.invalidate(ids[0], reason: .cancelled) }
            try await eventually { isRunning("b") }
            try store.step { try $0.discard(ids[1]) }
            try await eventually { isRunning("c") }
            #expect(try store.read { try $0.laneStatus("mail") }.running == 1)
            Hold.free("c")
            try await eventually { try store.notes() == ["c"] }
            #expect(try store.read { try $0.laneStatus("mail") }.running == 0)
        }
    }

    @Test("H27 a lane gets its limits later, and counts what runs already; raising a limit starts more")
    func rules() throws {
        try withRig(Self.handlers) { rig in
            for name in ["a", "b", "c"] { try enqueue(rig, name, LanePlace("mail")) }
            #expect(try status(rig).running == 3)
            try set(rig, LaneRule("mail", concurrency: 1))
            for name in ["d", "e"] { try enqueue(rig, name, LanePlace("mail")) }
            #expect(try status(rig).running == 3 && status(rig).waiting == 2)
            try set(rig, LaneRule("mail", concurrency: 4))
            #expect(try status(rig).running == 4 && status(rig).waiting == 1)
            try set(rig, LaneRule("mail"))
            #expect(try status(rig).running == 5)
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["a", "b", "c", "d", "e"])
            #expect(try rig.store.read { try $0.lanes() } == [])
        }
    }

    @Test(
        "H27 when a rule allows many more places than one step gives, the runner gives the others although no handler ends",
        arguments: [nil, 1190])
    func manyPlaces(concurrency: Int?) throws {
        try withRig(Self.handlers) { rig in
            // No runner serves this scope.
            let job = Job(in: Workshop())
            try rig.store.step { step in
                try step.setLane(LaneRule("mail", concurrency: 1))
                for number in 1...1201 {
                    try step.enqueue(Mail(name: "\(number)").durable, with: job, lane: LanePlace("mail"))
                }
            }
            #expect(try status(rig).running == 1)
            try set(rig, LaneRule("mail", concurrency: concurrency))
            // One step places so many and no more.
            #expect(try status(rig).running == 1 + Lanes.mostPlaced)
            while try rig.runner.runDue() == .zero {}
            #expect(try status(rig).running == concurrency ?? 1201)
            #expect(try rig.store.integer("SELECT count(*) FROM handler WHERE name = 'lane.filler'") == 0)
            #expect(try rig.store.notes() == [])
        }
    }

    @Test("H27 a rule without limits frees its place among the lanes with limits")
    func unlimited() throws {
        try withRig(Self.handlers) { rig in
            try rig.store.step { step in
                for number in 0...Lanes.maximum {
                    try step.setLane(LaneRule("lane \(number)", concurrency: 1))
                    try step.setLane(LaneRule("lane \(number)"))
                    try step.setLane(LaneRule("other \(number)"))
                }
            }
            #expect(try rig.store.read { try $0.lanes() } == [])
        }
    }

    @Test("H27 handlers that a lane of one place calls in a step share commits")
    func batches() throws {
        try withFolder { folder in
            let clock = VirtualClock()
            try withRig(folder.file(), Self.handlers, clock: clock) { rig in
                try set(rig, LaneRule("mail", concurrency: 1))
                for number in 1...40 { try enqueue(rig, "\(number)", LanePlace("mail", orderedBy: "k")) }
                let other = try openStore(folder.file(), Self.handlers, time: clock.timeSource)
                let before = other.notificationsByOthers
                try rig.runner.runDue()
                #expect(try rig.store.notes() == (1...40).map { "\($0)" })
                #expect(other.notificationsByOthers - before < 20)
            }
        }
    }

    // MARK: Order

    @Test("H27 handlers with an order key run in their order, also when the first fails and is tried again")
    func order() throws {
        try withRig(Self.handlers) { rig in
            let place = LanePlace("mail", orderedBy: "ada")
            try enqueue(rig, "first", until: 3, place)
            try enqueue(rig, "second", LanePlace("mail", priority: 100, orderedBy: "ada"))
            try enqueue(rig, "third", place)
            try enqueue(rig, "other", LanePlace("mail", orderedBy: "eve"))
            try enqueue(rig, "free", LanePlace("mail"))
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["other", "free"])
            let standstill = try status(rig).standstill
            #expect(
                "\(standstill as Any)".contains("with the order key 'ada', which is pending until"),
                "\(standstill as Any)")
            try run(rig, for: .seconds(30))
            #expect(try rig.store.notes() == ["other", "free", "first", "second", "third"])
        }
    }

    @Test(
        "H27 a quarantined handler lets the next one of its key pass, and comes after them when it is requeued"
    )
    func quarantined() throws {
        try withRig(Self.handlers) { rig in
            let place = LanePlace("mail", orderedBy: "ada")
            let bad = try enqueue(rig, "bad", until: 4, place)
            try enqueue(rig, "next", until: 2, place)
            try run(rig, for: .seconds(25))
            #expect(try rig.status(of: bad)?.state == .quarantined)
            #expect(try rig.store.notes() == [])
            // "next" waits for its second attempt, and is first now.
            try rig.store.step { try $0.requeue(bad) }
            try rig.runner.runDue()
            #expect(try status(rig).waiting == 1)
            try run(rig, for: .seconds(15))
            #expect(try rig.store.notes() == ["next"])
            #expect(try rig.status(of: bad)?.state == .pending)
        }
    }

    @Test("H27 a parked handler holds up the others of its key until a program knows it")
    func parked() throws {
        try withFolder { folder in
            let clock = VirtualClock()
            try withRig(folder.file(), Self.handlers, clock: clock) { rig in
                let place = LanePlace("mail", orderedBy: "ada")
                try rig.store.step {
                    try $0.enqueue(Write<Job>(text: "later").durable, with: Job(), lane: place)
                }
                try enqueue(rig, "next", place)
                try rig.runner.runDue()
                #expect(try rig.store.notes() == [])
                #expect("\(try status(rig).standstill as Any)".contains("which is parked"))
            }
            try withRig(folder.file(), Self.handlers + [Write<Job>.self], clock: clock) { rig in
                try rig.runner.runDue()
                #expect(try rig.store.notes() == ["later", "next"])
            }
        }
    }

    // MARK: Rate and priority

    @Test("H27 a rate limits how many start in a time, whatever process they start in")
    func rate() throws {
        try withFolder { folder in
            let clock = VirtualClock()
            try withRig(folder.file(), Self.handlers, clock: clock) { rig in
                try set(rig, LaneRule("mail", rate: LaneRate(2, per: .seconds(10))))
                for name in ["a", "b", "c", "d", "e"] { try enqueue(rig, name, LanePlace("mail")) }
                #expect(try rig.runner.runDue() == .seconds(5))
                #expect(try rig.store.notes() == ["a", "b"])
                #expect(try status(rig).standstill == .rate(until: clock.wall + .seconds(5)))
            }
            try withRig(folder.file(), Self.handlers, clock: clock) { rig in
                clock.advance(by: .milliseconds(4999))
                try rig.runner.runDue()
                #expect(try rig.store.notes().count == 2)
                clock.advance(by: .milliseconds(1))
                try rig.runner.runDue()
                #expect(try rig.store.notes() == ["a", "b", "c"])
                try run(rig, for: .seconds(10))
                #expect(try rig.store.notes() == ["a", "b", "c", "d", "e"])
                #expect(try status(rig).running == 0)
            }
        }
    }

    @Test("H27 a wall clock that is set back does not hold a lane up for longer than a period")
    func setBack() throws {
        try withRig(Self.handlers) { rig in
            try set(rig, LaneRule("mail", rate: LaneRate(1, per: .seconds(60))))
            for name in ["a", "b", "c"] { try enqueue(rig, name, LanePlace("mail")) }
            try rig.runner.runDue()
            rig.clock.setWall(Timestamp(milliseconds: rig.now - 86_400_000))
            try run(rig, for: .seconds(60))
            #expect(try rig.store.notes().count == 2)
            try run(rig, for: .seconds(60))
            #expect(try rig.store.notes() == ["a", "b", "c"])
        }
    }

    @Test("H27 a wall clock that is set back a little does not hold up a handler that has a place")
    func setBackLittle() throws {
        try withRig(Self.handlers) { rig in
            try set(rig, LaneRule("mail", concurrency: 1))
            try enqueue(rig, "a", LanePlace("mail"))
            rig.clock.setWall(Timestamp(milliseconds: rig.now - 1_800_000))
            try run(rig, for: .seconds(20))
            #expect(try rig.store.notes() == ["a"])
        }
    }

    @Test("H27 handlers that came while the clock was ahead start before those that come later")
    func setForward() throws {
        try withRig(Self.handlers) { rig in
            try set(rig, LaneRule("mail", concurrency: 1))
            try rig.store.step {
                try $0.enqueue(Hold(name: "long").durable, with: Job(), lane: LanePlace("mail"))
            }
            let lease = try rig.store.step { step -> Lease? in
                for due in try step.transaction.dueRows.due(in: nil, caller: .leased, limit: 1) {
                    return try step.transaction.dueRows.deliver(due, for: rig.store, environment: nil)
                }
                return nil
            }
            let time = rig.clock.wall
            rig.clock.setWall(time + .seconds(10 * 365 * 86_400))
            try enqueue(rig, "from the future", LanePlace("mail"))
            rig.clock.setWall(time)
            try run(rig, for: .seconds(30))
            try enqueue(rig, "late", LanePlace("mail", priority: -100))
            try enqueue(rig, "now", LanePlace("mail"))
            try run(rig, for: .seconds(30))
            try #require(lease).close { try $0.note("long") }
            try rig.runner.runDue()
            // A low priority is not lost.
            #expect(try rig.store.notes() == ["long", "from the future", "now", "late"])
        }
    }

    @Test("H27 a rate whose next token is far away is kept, also by what corrects a wrong clock")
    func longRate() throws {
        try withRig(Self.handlers) { rig in
            try set(rig, LaneRule("mail", rate: LaneRate(1, per: .seconds(86_400))))
            for name in ["a", "b", "c"] { try enqueue(rig, name, LanePlace("mail")) }
            // No process wakes for that more often than each minute.
            #expect(try rig.runner.runDue() == .seconds(60))
            try run(rig, for: .seconds(1200), step: .seconds(30))
            #expect(try rig.store.notes() == ["a"])
            let state = try status(rig)
            #expect(state.running == 0 && state.waiting == 2 && "\(state)".contains("as the rate allows"))
            try rig.store.step { step in
                try step.transaction.dueRows.hasten(beyond: .seconds(60), limit: 9)
                let isEmpty = step.transaction.newDue.isEmpty
                #expect(isEmpty)
            }
            // Another program may have made it due.
            try rig.store.step { step in
                try step.execute("UPDATE handler SET due = ?", step.now)
                step.transaction.newDue.isAnywhere = true
            }
            try run(rig, for: .seconds(60), step: .seconds(10))
            #expect(try rig.store.notes() == ["a"])
            rig.clock.advance(by: .seconds(86_400 - 1260))
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["a", "b"])
        }
    }

    @Test("H27 a handler that waits for its token has the time of a new rate, and starts at once without one")
    func newRate() throws {
        try withRig(Self.handlers) { rig in
            try set(rig, LaneRule("mail", rate: LaneRate(1, per: .seconds(3600))))
            for name in ["a", "b", "c"] { try enqueue(rig, name, LanePlace("mail")) }
            try rig.runner.runDue()
            try set(rig, LaneRule("mail", rate: LaneRate(100, per: .seconds(3600))))
            #expect(try rig.runner.runDue() == .seconds(36))
            rig.clock.advance(by: .seconds(36))
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["a", "b"])
            for rule in [LaneRule("mail", concurrency: 2), LaneRule("mail")] {
                try set(rig, LaneRule("mail", rate: LaneRate(1, per: .seconds(3600))))
                for name in ["d", "e"] { try enqueue(rig, name, LanePlace("mail")) }
                try rig.runner.runDue()
                try set(rig, rule)
                try rig.runner.runDue()
                #expect(try rig.handlers(in: .pending) == [])
            }
        }
    }

    @Test("H27 a step of priority is worth a minute of waiting")
    func priority() throws {
        try withRig(Self.handlers) { rig in
            try set(rig, LaneRule("mail", concurrency: 1))
            let blocker = try enqueue(rig, "blocker", LanePlace("mail"))
            try enqueue(rig, "old", LanePlace("mail"))
            rig.clock.advance(by: .seconds(59))
            try enqueue(rig, "urgent", LanePlace("mail", priority: 1))
            rig.clock.advance(by: .seconds(2))
            try enqueue(rig, "late", LanePlace("mail", priority: 1))
            try enqueue(rig, "low", LanePlace("mail", priority: -1))
            _ = blocker
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["blocker", "urgent", "old", "late", "low"])
        }
    }

    // MARK: Where handlers come from

    @Test(
        "H27 a handler bound in a lane enters it with its call; one that runs in the caller's step does not wait"
    )
    func bound() throws {
        try withRig(Self.handlers) { rig in
            try set(rig, LaneRule("mail", concurrency: 1))
            let (inStep, first, second) = try rig.store.step { step in
                (
                    try step.bind(
                        Mail(name: "in step", until: 2).durable, lane: LanePlace("mail", orderedBy: "k")),
                    try step.bind(Hold(name: "x").durable, lane: LanePlace("mail")),
                    try step.bind(Hold(name: "y").durable, lane: LanePlace("mail"), timeout: .seconds(60))
                )
            }
            #expect(try status(rig).away == 3 && status(rig).running == 0)
            #expect(try rig.end(first) == .queued)
            #expect(try rig.end(second) == .queued)
            #expect(try status(rig).running == 1 && status(rig).waiting == 1)
            // It is called although the lane is full; only its next attempt waits.
            #expect("\(try rig.end(inStep))".contains("retrying"))
            #expect(try rig.store.integer("SELECT count(*) FROM handler WHERE due IS NOT NULL") == 2)
            try rig.invalidate(first)
            try rig.invalidate(second)
            try rig.runWhenDue(inStep)
            #expect(try rig.store.notes() == ["in step"])
            #expect(try rig.store.integer("SELECT count(*) FROM lane_entry") == 0)
            #expect(try status(rig).running == 0)
        }
    }

    @Test("H27 handlers of a scope that no process serves lose their places after a while")
    func unserved() throws {
        try withRig(Self.handlers) { rig in
            try set(rig, LaneRule("mail", concurrency: 1))
            let shop = Workshop()
            try rig.store.step {
                try $0.enqueue(Mail(name: "shop").durable, with: Job(in: shop), lane: LanePlace("mail"))
            }
            try enqueue(rig, "mine", LanePlace("mail"))
            #expect(try rig.runner.runDue() == .seconds(10))
            #expect(try rig.store.notes() == [])
            rig.clock.advance(by: .seconds(5))
            #expect("\(try status(rig).standstill as Any)".contains("no process has called it"))
            try run(rig, for: .seconds(20))
            #expect(try rig.store.notes() == ["mine"])
            try rig.runner.attach(shop)
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["mine", "shop"])
            #expect(try status(rig).running == 0)
        }
    }

    @Test(
        "H27 of many handlers that no process serves, none holds up a lane longer than the first",
        arguments: [LaneRule("mail", concurrency: 1), LaneRule("mail", rate: LaneRate(1, per: .seconds(1)))])
    func unservedBacklog(rule: LaneRule) throws {
        try withRig(Self.handlers) { rig in
            try set(rig, rule)
            let shop = Workshop()
            try rig.store.step { step in
                for number in 1...1200 {
                    try step.enqueue(
                        Mail(name: "shop \(number)").durable, with: Job(in: shop), lane: LanePlace("mail"))
                }
            }
            try enqueue(rig, "mine", LanePlace("mail"))
            try run(rig, for: .seconds(15))
            #expect(try rig.store.notes() == ["mine"])
            #expect(try status(rig).away == 1200)
            // All come back when a process serves them.
            try rig.runner.attach(shop)
            try set(rig, LaneRule("mail"))
            try rig.runner.runDue()
            #expect(try rig.store.notes().count == 1201)
        }
    }

    @Test("H27 the status names the handler that no process has called for the longest time")
    func uncalled() throws {
        try withRig(Self.handlers) { rig in
            try set(rig, LaneRule("mail", concurrency: 2))
            let shop = Workshop()
            func enqueueForShop(_ priority: Int) throws -> HandlerID<Job> {
                try rig.store.step {
                    try $0.enqueue(
                        Mail(name: "shop").durable, with: Job(in: shop),
                        lane: LanePlace("mail", priority: priority))
                }
            }
            let first = try enqueueForShop(-5)
            let since = rig.clock.wall
            rig.clock.advance(by: .seconds(2))
            _ = try enqueueForShop(5)
            _ = try enqueueForShop(0)
            rig.clock.advance(by: .seconds(2))
            #expect(try status(rig).standstill == .uncalled(handler: AnyHandlerID(first), since: since))
        }
    }

    // MARK: Wake-ups

    @Test("H27 without lanes, a commit of another process makes a runner look for no places")
    func noLanes() throws {
        try withRig(Self.handlers) { rig in
            for _ in 0..<2 {
                var new = NewDue()
                new.isAnywhere = true
                rig.runner.loop.add(new)
                let rest = try rig.runner.runDue()
                #expect(rest == nil)
                let mayHavePlaces = rig.runner.loop.withMachine { $0.mayHavePlaces }
                #expect(!mayHavePlaces)
            }
        }
    }

    @Test("H27 a runner finds places that another process has given, and notifies no process of that")
    func foundPlaces() throws {
        try withFolder { folder in
            let clock = VirtualClock()
            let shop = Workshop()
            try withRig(folder.file(), Self.handlers, clock: clock) { rig in
                let other = try openStore(folder.file(), Self.handlers, time: clock.timeSource)
                try other.step { step in
                    try step.setLane(LaneRule("mail", concurrency: 1))
                    try step.enqueue(
                        Mail(name: "shop").durable, with: Job(in: shop), lane: LanePlace("mail"))
                }
                let before = other.notificationsByOthers
                #expect(try rig.runner.runDue() == .seconds(10))
                #expect(other.notificationsByOthers == before)
                rig.runner.close()
            }
            try withRig(folder.file(), Self.handlers, clock: clock) { rig in
                try rig.runner.runDue()
                // In a pass for one runner, after a commit of another process.
                clock.advance(by: .seconds(60))
                try run(rig, for: .seconds(20))
                #expect(try status(rig).running == 0 && status(rig).away == 1)
                let other = try openStore(folder.file(), Self.handlers, time: clock.timeSource)
                try other.step {
                    try $0.enqueue(
                        Mail(name: "shop").durable, with: Job(in: shop), lane: LanePlace("mail"))
                }
                var new = NewDue()
                new.isAnywhere = true
                rig.runner.loop.add(new)
                try run(rig, for: .seconds(20))
                #expect(try status(rig).running == 0 && status(rig).away == 2)
            }
        }
    }

    @Test(
        "H27 names, limits, priorities and order keys out of their range are refused, and nothing is stored")
    func refused() throws {
        try withRig(Self.handlers) { rig in
            let long = String(repeating: "x", count: 129)
            let rules = [
                LaneRule(""), LaneRule(long), LaneRule("a\u{0}"), LaneRule("a", concurrency: 0),
                LaneRule("a", rate: LaneRate(0, per: .seconds(1))),
                LaneRule("a", rate: LaneRate(1, per: .zero)),
                LaneRule("a", rate: LaneRate(1_000_001, per: .seconds(1))),
                LaneRule("a", rate: LaneRate(1, per: .seconds(32 * 86_400))),
            ]
            for rule in rules { #expect(code { try set(rig, rule) } == .invalidLane, "\(rule)") }
            let places = [
                LanePlace(""), LanePlace(long), LanePlace("a", priority: 101), LanePlace("a", priority: -101),
                LanePlace("a", orderedBy: ""), LanePlace("a", orderedBy: String(repeating: "x", count: 513)),
            ]
            for place in places {
                #expect(code { try enqueue(rig, "a", place) } == .invalidLane, "\(place)")
                #expect(
                    code { try rig.store.step { _ = try $0.bind(Say(name: "s").durable, lane: place) } }
                        == .invalidLane)
            }
            let (handlers, lanes) = (try rig.handlers(), try rig.store.read { try $0.lanes() })
            #expect(handlers == [] && lanes == [])
        }
    }
}
