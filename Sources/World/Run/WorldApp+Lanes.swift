import Handlers

extension WorldApp {
    /// The lane of the application, and how many of its handlers run at the same time.
    static let lane = (name: "lane", concurrency: 1)

    /// Returns the order key of an entry in the lane; nil for none.
    static func orderKey(_ n: Int) -> String? { n % 2 == 0 ? "key" : nil }

    /// Has a handler called in a lane, by a calendar, or after others by a join.
    static func queue(in step: borrowing Step) throws -> Int {
        let n = try next(in: step)
        switch n % 8 {
        case 0:
            let rule = try CalendarRule("* * * * *", in: "UTC")
            try step.schedule(Tick(n: n).durable, on: rule)
            try bound(n, "calendar", due: rule.next(after: step.now), in: step)
        case 1:
            let parts = try (0..<2).map { _ in
                AnyHandlerID(try step.enqueue(CarryPart(n: n).durable, with: Job(n: n), lane: place(n)))
            }
            try step.join(MetLater(n: n).durable, when: .all, of: parts)
            try bound(n, "join", in: step)
        case 2, 3, 4:
            try step.enqueue(CarryLater(n: n).durable, with: Job(n: n), lane: place(n))
            try bound(n, "lane", in: step)
        default:
            try step.enqueue(Carry(n: n).durable, with: Job(n: n), lane: place(n))
            try bound(n, "lane", in: step)
        }
        return n
    }

    private static func place(_ n: Int) -> LanePlace {
        LanePlace(lane.name, priority: n % 3 - 1, orderedBy: orderKey(n))
    }

    /// Stores the limits of the lane, which change with the process.
    static func setLane(in step: borrowing Step) throws {
        let rate = process.utf8.count % 2 == 0 ? LaneRate(20, per: .seconds(1)) : nil
        try step.setLane(LaneRule(lane.name, concurrency: lane.concurrency, rate: rate))
    }

    /// A synchronous handler of the lane. Every other one succeeds only at its second call.
    struct Carry: Handler {
        static let id = "world.carry"
        static let retry = RetryPolicy(firstDelay: .milliseconds(200), factor: 1, deaths: .max)
        var n: Int
        func run(_ call: borrowing Call<Job>) throws {
            try WorldApp.ended(n, "carried", in: call.step)
            // This error rolls back everything from this call.
            if n % 2 == 0 && call.attempt == 1 { throw TooEarly() }
        }
    }

    /// One of the handlers of a join.
    struct CarryPart: Handler {
        static let id = "world.carry-part"
        static let retry = Listen.retry
        var n: Int
        func run(_ call: borrowing Call<Job>) throws {
            if n % 4 == 1 && call.attempt == 1 { throw TooEarly() }
            try call.setResult(n)
        }
    }

    /// An async handler of the lane. The first attempt of some of them reaches its limit.
    struct CarryLater: AsyncHandler {
        static let id = "world.carry-later"
        static let retry = RetryPolicy(firstDelay: .milliseconds(5), factor: 1, deaths: .max)
        static let limit: Duration? = .milliseconds(300)
        var n: Int
        func run(_ call: AsyncCall<Job>) async throws {
            let isSlow = n % 3 == 0 && call.attempt == 1
            try await WorldApp.running(n, inLane: true) {
                try await WorldApp.sleep(isSlow ? .seconds(2) : .milliseconds(100))
            }
            try call.end { step in try WorldApp.ended(n, "carried", in: step) }
        }
    }

    /// Called when others have ended.
    struct MetLater: AsyncHandler {
        static let id = "world.met-later"
        static let retry = CarryLater.retry
        var n: Int
        func run(_ call: AsyncCall<Joined>) async throws {
            let results = try call.children().map { $0.outcome == nil ? nil : try $0.result(as: Int.self) }
            await WorldApp.pause()
            try call.end { try WorldApp.ended(n, results == [n, n] ? "met" : "forged", in: $0) }
        }
    }

    /// A timer that follows a calendar, until its first call.
    struct Tick: Handler {
        static let id = "world.tick"
        static let retry = Listen.retry
        var n: Int
        func run(_ call: borrowing Call<TimerFired>) throws {
            let due = try call.step.first("SELECT due FROM world_bound WHERE n = ?", n) {
                (row) throws(HandlerError) in row.timestamp(0)
            }
            let isEarly = call.attempt == 1 && due.map { call.step.now < $0 } ?? false
            try WorldApp.ended(n, isEarly ? "early" : "fired", in: call.step)
            if let id = call.handlerID { try call.step.invalidate(id, reason: .cancelled) }
        }
    }
}
