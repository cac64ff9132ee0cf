import BenchmarkHandlers
import Handlers

/// The cost of a handler that a join waits for, and of one in a lane, beside the same handlers without them. No disk is waited for.
struct AdditionBenchmark: Benchmark {
    private static let group = 64
    /// A join or a lane may cost half of a plain step.
    private static let goal = 1 / 1.5

    let names = ["handlers/join-child", "handlers/lane-entry", "handlers/lane-entry-waiting"]
    let place = "/dev/shm"

    func run(in workspace: Workspace) throws -> [Line] {
        func side(_ name: String) throws -> AdditionalSteps { try AdditionalSteps(workspace.file(name)) }
        let (joined, apart) = (try side("joined.db"), try side("apart.db"))
        let joins = try Rounds(count: Self.group) {
            try joined.end(Self.group, isJoined: true)
        } reference: {
            try apart.end(Self.group, isJoined: false)
        }
        // With a place for each of them, and with so few places that most wait for one.
        let lanes = try [64, 8].map { places in
            let (inLane, free) = (try side("lane-\(places).db"), try side("free-\(places).db"))
            try inLane.limit(places)
            return try Rounds(count: Self.group) {
                try inLane.call(Self.group, isInLane: true)
            } reference: {
                try free.call(Self.group, isInLane: false)
            }
        }
        return [
            Line(
                names[0], unit: "steps/s", better: .more, ours: joins.ours, reference: joins.reference,
                referenceName: "without join", goal: Self.goal)
        ]
            + zip(names.dropFirst(), lanes).map { name, lanes in
                Line(
                    name, unit: "steps/s", better: .more, ours: lanes.ours, reference: lanes.reference,
                    referenceName: "without lane", goal: Self.goal)
            }
    }
}

/// A store in which handlers are bound and end at once.
private final class AdditionalSteps {
    private let store: HandlerStore
    private let runner: HandlerRunner

    init(_ path: String) throws {
        store = try BenchmarkStore.open(path, [Count.self, Collect.self])
        runner = try HandlerRunner(store)
    }

    func limit(_ places: Int) throws {
        try store.step { try $0.setLane(LaneRule("bench", concurrency: places)) }
    }

    deinit { runner.close() }

    /// Binds and ends handlers in one transaction.
    ///
    /// - Parameter isJoined: Whether another handler is called when all have ended.
    func end(_ count: Int, isJoined: Bool) throws {
        try store.step { step in
            let fired = TimerFired(dueAt: step.now)
            let handlers = try (0..<count).map { _ in try step.bind(Count().durable) }
            if isJoined {
                try step.join(Collect().durable, when: .all, of: handlers.map { AnyHandlerID($0) })
            }
            for handler in handlers {
                guard try step.end(handler, .result, with: fired) == .ended else {
                    throw BenchmarkError("a handler did not end")
                }
            }
        }
    }

    /// Has a runner call handlers.
    func call(_ count: Int, isInLane: Bool) throws {
        try store.step { step in
            for _ in 0..<count {
                if isInLane {
                    try step.enqueue(
                        Count().durable, with: TimerFired(dueAt: step.now), lane: LanePlace("bench"))
                } else {
                    try step.schedule(Count().durable, after: .zero)
                }
            }
        }
        while try store.read({ try $0.handlers(limit: 1) }).isEmpty == false { try runner.runDue() }
    }
}
