import Glibc
import Handlers

// Handlers of every kind that a runner calls, each of which leaves one row in `effect` when it ends, and no key forbids
// a second one: the test counts them.

private let effects = Schema(
    module: "work", migrations: ["CREATE TABLE effect(row INTEGER PRIMARY KEY, key TEXT NOT NULL)"])

/// Nobody's death is held against a handler here: the test kills at random.
private let patient = RetryPolicy(attempts: 3, firstDelay: .milliseconds(1), factor: 1, deaths: .max)

extension Step {
    fileprivate func effect(_ key: some CustomStringConvertible) throws(HandlerError) {
        try execute("INSERT INTO effect(key) VALUES (?)", key.description)
    }
}

private struct Work: RestorableContext, Codable { var n: Int }
private struct Hiccup: Error {}

/// A timer; every other one fails at first.
private struct Tick: Handler {
    static let id = "work.tick"
    static let retry = patient
    var failsFirst: Bool
    func run(_ call: borrowing Call<TimerFired>) throws {
        try call.step.effect(call.handlerID?.description ?? "?")
        if failsFirst && call.attempt == 1 { throw Hiccup() }
    }
}

/// A timer that runs another handler, which becomes a row of its own.
private struct Chain: Handler {
    static let id = "work.chain"
    static let retry = patient
    func run(_ call: borrowing Call<TimerFired>) throws {
        try call.step.effect(call.handlerID?.description ?? "?")
        try call.step.run(Await().durable, with: Work(n: 0))
    }
}

private struct Await: AsyncHandler {
    static let id = "work.await"
    static let retry = patient
    func run(_ call: AsyncCall<Work>) async throws {
        await Task.yield()
        if call.n % 3 == 1 && call.attempt == 1 { throw Hiccup() }
        try call.end { step in try step.effect(call.handlerID) }
    }
}

/// Never succeeds.
private struct Fail: Handler {
    static let id = "work.fail"
    static let retry = patient
    func run(_ call: borrowing Call<TimerFired>) throws {
        try call.step.effect("must be undone")
        throw Hiccup()
    }
}

/// Is told that its time is over.
private struct Late: Handler {
    static let id = "work.late"
    static let retry = patient
    var n: Int
    func run(_ call: borrowing Call<Invalidation>) throws { try call.step.effect("late \(n)") }
}

private func open(_ path: String) throws -> HandlerStore {
    try HandlerStore(
        path: path,
        registry: HandlerRegistry([Tick.self, Chain.self, Await.self, Fail.self, Late.self]),
        schemas: [effects],
        synchronous: .normal, busyTimeout: .seconds(60))
}

/// `bind DATABASE COUNT`: stores that many handlers of eight kinds in turn, all of them due.
func bindWork(_ arguments: [String]) throws {
    let store = try open(arguments[0])
    let count = Int(arguments[1])!
    let standing = try store.step { try $0.bindStanding(Await().durable) }
    for start in stride(from: 0, to: count, by: 500) {
        try store.step { step in
            for n in start..<min(start + 500, count) { try bind(n, standing, in: step) }
        }
    }
    say("bound")
}

private func bind(_ n: Int, _ standing: HandlerID<Work>, in step: borrowing Step) throws {
    switch n % 8 {
    case 0, 1: try step.schedule(Tick(failsFirst: n % 2 == 0).durable, after: .zero)
    case 2: try step.end(step.bind(Await().durable), .result, with: Work(n: n))
    case 3: try step.call(standing, with: Work(n: n))
    case 4: try step.schedule(Chain().durable, after: .zero)
    case 5: try step.schedule(Fail().durable, after: .zero)
    case 6:
        try step.bind(Await().durable.orElse(Late(n: n).durable), timeout: nil, deadline: step.now)
    default: try step.end(step.bind(Stranger().durable), .result, with: Work(n: n))
    }
}

/// Not in the registry, as if an older program ran here.
private struct Stranger: AsyncHandler {
    static let id = "work.stranger"
    func run(_ call: AsyncCall<Work>) async throws {}
}

/// `work DATABASE`: runs what is due, with others, until nothing is.
func work(_ arguments: [String]) throws {
    let store = try open(arguments[0])
    let runner = try HandlerRunner(store, .init { if !($0 is HandlerFailure) { say("failed \($0)") } })
    try runner.start()
    while try store.step({ step in
        try step.first(
            "SELECT 1 FROM handler WHERE due IS NOT NULL UNION ALL SELECT 1 FROM handler WHERE state <> 0 AND state = 3"
        ) { _ in true }
    }) != nil {
        usleep(20_000)
    }
    runner.close()
    say("done")
}

/// `requeue DATABASE`: gives what was quarantined or parked another chance.
func requeue(_ arguments: [String]) throws {
    try open(arguments[0]).step { _ = try $0.requeueAll() }
    say("done")
}
