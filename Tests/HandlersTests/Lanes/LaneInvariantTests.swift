import HandlersTestKit
import TestThreads
import TestSupport
import Testing

@testable import Handlers

/// Ends as its lease is told to.
private struct Work: AsyncHandler {
    static let id = "lanes.work"
    static let retry = RetryPolicy(attempts: 3, firstDelay: .seconds(5))
    var number: Int
    func run(_ call: AsyncCall<Job>) async throws {}
}

/// Fails on some numbers.
private struct Errand: Handler {
    static let id = "lanes.errand"
    static let retry = RetryPolicy(attempts: 2, firstDelay: .seconds(5))
    var number: Int
    func run(_ call: borrowing Call<Job>) throws {
        if number % 5 == 0, call.attempt == 1 { throw Failure() }
        try call.step.note("\(number)")
    }
}

/// Known to no process of these tests.
private struct Unknown: Handler {
    static let id = "lanes.unknown"
    func run(_ call: borrowing Call<Job>) throws {}
}

/// Random operations on lanes, as a runner and a program make them. A lease ends in another operation than it starts.
@Suite(.serialized, .ownThread, .timeLimit(.minutes(3)), .engines(.sqlite, .postgres))
struct LaneInvariantTests {
    private final class Model {
        let rig: Rig
        var random: SeededGenerator
        var leases: [Lease] = []
        var all: [HandlerID<Job>] = []
        /// The order key of each number that must come in its order.
        var keys: [Int: String] = [:]
        let shop = Workshop("shop")
        /// Whether a process serves the shop.
        var isServed = true

        static let lanes = ["two", "rated", "slow", "free"]
        static let rates = [
            LaneRate(2, per: .seconds(3)), LaneRate(1, per: .seconds(7200)), LaneRate(50, per: .seconds(60)),
        ]

        init(_ rig: Rig, seed: UInt64) { (self.rig, random) = (rig, SeededGenerator(seed: seed)) }

        func pick<T>(_ items: [T]) -> T? { items.randomElement(using: &random) }

        func enqueue() throws {
            let number = all.count
            let key = pick(["x", "y", nil, nil])!
            let lane = pick(Self.lanes)!
            let place = LanePlace(lane, priority: .random(in: -2...2, using: &random), orderedBy: key)
            if let key { keys[number] = lane + key }
            let job = Job(in: pick([shop, nil, nil]) ?? nil)
            let kind = Int.random(in: 0..<9, using: &random)
            // A place with a key is held up for good by one that no process knows.
            let isUnknown = kind == 8 && key == nil
            all.append(
                try rig.store.step { step in
                    if isUnknown { return try step.enqueue(Unknown().durable, with: job, lane: place) }
                    return kind < 4
                        ? try step.enqueue(Work(number: number).durable, with: job, lane: place)
                        : try step.enqueue(Errand(number: number).durable, with: job, lane: place)
                })
        }

        /// What a runner does: calls what is due, and leases what is to be leased.
        func look() throws {
            let scopes: [Workshop?] = isServed ? [nil, shop] : [nil]
            try rig.store.step { step in
                for scope in scopes {
                    for caller in Caller.open(to: .main, leasing: true) {
                        let due = try step.transaction.dueRows.due(in: scope?.scope, caller: caller, limit: 3)
                        for row in due {
                            if let lease = try step.transaction.dueRows.deliver(
                                row, for: rig.store, environment: scope)
                            {
                                leases.append(lease)
                            }
                        }
                    }
                }
            }
        }

        /// What a runner does beside what is due.
        func keepHouse() throws {
            try rig.store.step { step in
                _ = try step.transaction.lanes.recallPlaces(longest: .seconds(60)) { [isServed] scope, _ in
                    scope == nil || isServed
                }
                try step.transaction.dueRows.hasten(beyond: rig.store.registry.longestRetryDelay, limit: 500)
            }
        }

        func setLimits() throws {
            let rate = pick(Self.rates + [nil])!
            let isSlow = Bool.random(using: &random)
            try rig.store.step { step in
                try step.setLane(
                    isSlow ? LaneRule("slow", rate: rate) : LaneRule("rated", concurrency: 3, rate: rate))
            }
        }

        /// Requeues a handler that failed for good, after which it comes after those of its key.
        func requeue() throws {
            let failed = try rig.store.integer(
                "SELECT id FROM handler WHERE state IN (1, 2) ORDER BY id DESC LIMIT 1")
            guard let failed, let number = all.firstIndex(where: { $0.rawValue == failed }) else { return }
            keys[number] = nil
            try rig.store.step { try $0.requeue(all[number]) }
        }

        func turnClock() {
            let jump = pick([-5400, -1200, 1200, 5400])!
            rig.clock.setWall(Timestamp(milliseconds: rig.now + Int64(jump) * 1000))
        }

        private func takeLease() -> Lease? {
            guard let index = leases.indices.randomElement(using: &random) else { return nil }
            return leases.remove(at: index)
        }

        func endLease() throws {
            guard let lease = takeLease() else { return }
            let arguments = try ArgumentCoding.record(lease.stored.arguments, handler: "work")
            guard case .integer(let number)? = arguments.values["number"] else { throw Failure() }
            do {
                try lease.close { try $0.note("\(number)") }
            } catch let error as HandlerError where error.code == .leaseLost {}
        }

        func failLease() throws {
            guard let lease = takeLease() else { return }
            try rig.store.step { try $0.transaction.leases.fail(lease, Failure()) }
        }

        func giveBackLease() throws {
            guard let lease = takeLease() else { return }
            try rig.store.step { try $0.transaction.leases.giveBack(lease) }
        }

        /// What the others do when this process has died.
        func die() throws {
            let slot = rig.store.slotNumber
            try rig.store.betweenSteps { (connection) throws(HandlerError) in
                try connection.leave(slot: slot, now: rig.clock.wall)
            }
            leases = []
        }

        func end(_ discarding: Bool) throws {
            guard let id = pick(all) else { return }
            do {
                try rig.store.step { step in
                    if discarding {
                        try step.discard(id)
                    } else {
                        _ = try step.invalidate(id, reason: .cancelled)
                    }
                }
            } catch let error as HandlerError where error.code == .noSuchHandler {}
        }

        func undone() throws {
            let id = pick(all)
            try? rig.store.step { step in
                if let id { _ = try? step.invalidate(id, reason: .cancelled) }
                try step.setLane(LaneRule("free", concurrency: 9))
                throw Failure()
            }
        }

        func act() throws {
            switch Int.random(in: 0..<30, using: &random) {
            case 0..<6: try enqueue()
            case 6..<10: try look()
            case 10..<12: try endLease()
            case 12: try failLease()
            case 13: try giveBackLease()
            case 14: try die()
            case 15: try end(false)
            case 16: try end(true)
            case 17: try undone()
            case 18..<21: try keepHouse()
            case 21: try setLimits()
            case 22: try requeue()
            case 23: isServed.toggle()
            case 24: turnClock()
            default: rig.clock.advance(by: .milliseconds(.random(in: 0...4000, using: &random)))
            }
        }

        func numbers() throws -> [Int] { try rig.store.notes().compactMap { Int($0) } }
    }

    private func count(_ rig: Rig, _ sql: String) throws -> Int64 { try rig.store.integer(sql) ?? -1 }

    /// What must hold after every commit. 1 is blocked, 2 ready, 3 placed, 4 away.
    ///
    /// - Parameter latest: The latest time that the clock has shown.
    private func check(_ rig: Rig, _ round: Int, latest: Int64) throws {
        let wrong = [
            "a lane counts its places wrong":
                "SELECT count(*) FROM lane WHERE running <> (SELECT count(*) FROM lane_entry WHERE lane = lane.name AND state = 3)",
            "a lane has more places than its limit": "SELECT count(*) FROM lane WHERE running > concurrency",
            "more are leased than have a place":
                "SELECT count(*) FROM handler JOIN lane_entry ON handler = id WHERE handler.state = 3 AND lane_entry.state <> 3",
            "an entry has no handler":
                "SELECT count(*) FROM lane_entry WHERE NOT EXISTS (SELECT 1 FROM handler WHERE id = lane_entry.handler)",
            "a handler has no entry":
                "SELECT count(*) FROM handler WHERE relations & 32 <> 0 AND NOT EXISTS (SELECT 1 FROM lane_entry WHERE handler = handler.id)",
            "one that waits is due":
                "SELECT count(*) FROM handler JOIN lane_entry ON handler = id WHERE lane_entry.state IN (1, 2) AND due IS NOT NULL",
            "one with a place is neither due nor leased":
                "SELECT count(*) FROM handler JOIN lane_entry ON handler = id WHERE lane_entry.state = 3 AND due IS NULL AND handler.state <> 3",
            "a place is free and one waits for it":
                "SELECT count(*) FROM lane WHERE token_waiter IS NULL AND (concurrency IS NULL OR running < concurrency) AND EXISTS (SELECT 1 FROM lane_entry WHERE lane = lane.name AND state = 2)",
            "one that waits for a token has no place, or is due at another time":
                "SELECT count(*) FROM lane WHERE token_waiter IS NOT NULL AND NOT EXISTS (SELECT 1 FROM lane_entry JOIN handler ON id = handler WHERE handler = token_waiter AND lane_entry.lane = lane.name AND lane_entry.state = 3 AND handler.state = 0 AND due = token_at)",
            "one that nobody called is due later than its lane lets it wait":
                "SELECT count(*) FROM handler JOIN lane_entry ON handler = id WHERE lane_entry.state = 3 AND due > \(latest) AND NOT EXISTS (SELECT 1 FROM lane WHERE token_waiter = handler.id)",
            "a lane without limits has a row":
                "SELECT count(*) FROM lane WHERE concurrency IS NULL AND rate IS NULL",
            "a lane without limits lets one wait":
                "SELECT count(*) FROM lane_entry WHERE state = 2 AND lane = 'free'",
            "one of a key that is not first may start":
                """
            SELECT count(*) FROM lane_entry AS one WHERE state IN (2, 3) AND order_key IS NOT NULL AND EXISTS
                (SELECT 1 FROM lane_entry AS two WHERE two.lane = one.lane AND two.order_key = one.order_key AND two.position < one.position)
            """,
            "the first of a key is blocked":
                """
            SELECT count(*) FROM lane_entry AS one WHERE state = 1 AND NOT EXISTS
                (SELECT 1 FROM lane_entry AS two WHERE two.lane = one.lane AND two.order_key = one.order_key AND two.position < one.position)
            """,
        ]
        try rig.store.read { source in
            for (fault, sql) in wrong.sorted(by: { $0.key < $1.key }) {
                let found = try source.first(sql) { $0.integer(0) }
                if found != 0 { Issue.record("after operation \(round): \(fault)") }
            }
        }
    }

    @Test(
        "H27 after any operation, each lane counts its places right, keeps its limit, lets no place stay free, and keeps the order of keys",
        .sqliteOnly,
        arguments: 1...4)
    func random(seed: Int) throws {
        try withRig([Work.self, Errand.self]) { rig in
            let model = Model(rig, seed: UInt64(seed))
            try rig.store.step { step in
                try step.setLane(LaneRule("two", concurrency: 2))
                try step.setLane(LaneRule("rated", concurrency: 3, rate: LaneRate(2, per: .seconds(3))))
                try step.setLane(LaneRule("slow", rate: LaneRate(1, per: .seconds(7200))))
            }
            var latest = rig.now
            for round in 1...500 {
                try model.act()
                latest = max(latest, rig.now)
                try check(rig, round, latest: latest)
            }
            // In the end a process serves all, and lanes are fast enough to be empty soon.
            model.isServed = true
            rig.clock.setWall(Timestamp(milliseconds: latest))
            try rig.store.step { step in
                try step.setLane(LaneRule("rated", concurrency: 3, rate: LaneRate(2, per: .seconds(3))))
                try step.setLane(LaneRule("slow", rate: LaneRate(2, per: .seconds(3))))
            }
            for _ in 0..<4000 {
                guard try !rig.handlers(in: .pending).isEmpty || !model.leases.isEmpty else { break }
                try model.look()
                try model.endLease()
                try model.keepHouse()
                rig.clock.advance(by: .seconds(1))
            }
            try check(rig, 0, latest: max(latest, rig.now))
            #expect(try rig.handlers(in: .pending) == [])
            #expect(try rig.handlers(in: .running) == [])
            let ran = try model.numbers()
            #expect(Set(ran).count == ran.count && ran.count > 20)
            for key in Set(model.keys.values) {
                let mine = ran.filter { model.keys[$0] == key }
                #expect(mine == mine.sorted(), "\(key)")
            }
            #expect(
                try count(rig, "SELECT count(*) FROM ending") == Int64(model.all.count)
                    - count(rig, "SELECT count(*) FROM handler"))
        }
    }

    @Test("H27 of many handlers in a full lane, only those with a place are due")
    func many() throws {
        try withRig([Errand.self]) { rig in
            try rig.store.step { step in
                try step.setLane(LaneRule("full", concurrency: 3))
                for number in 1...5000 {
                    try step.enqueue(Errand(number: number).durable, with: Job(), lane: LanePlace("full"))
                }
            }
            #expect(try count(rig, "SELECT count(*) FROM handler WHERE due IS NOT NULL") == 3)
            #expect(try rig.store.read { try $0.laneStatus("full") }.waiting == 4997)
        }
    }
}
