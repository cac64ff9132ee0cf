import Handlers
import HandlersTestKit
import Synchronization
import TestSupport
import Testing

/// A store with a runner that does something only when it is told to, on a clock that a test turns.
struct Rig {
    let clock: VirtualClock
    let store: HandlerStore
    let runner: HandlerRunner

    init(
        _ path: String, _ handlers: [any DurableHandler.Type], schemas: [Schema] = [notes],
        role: HandlerStore.Role = .main, clock: VirtualClock = VirtualClock(), workflowMemory: Int? = nil
    ) throws {
        self.clock = clock
        store = try TestEngine.open(
            path, registry: HandlerRegistry(handlers), schemas: schemas, role: role, time: clock.timeSource)
        var configuration = HandlerRunner.Configuration()
        if let workflowMemory { configuration.workflowMemory = workflowMemory }
        runner = try HandlerRunner(store, configuration)
    }

    var now: Int64 { clock.wall.milliseconds }

    func status<Context>(of id: HandlerID<Context>) throws -> HandlerStatus? {
        try store.step { try $0.status(of: id) }
    }

    /// Every handler that has not ended.
    func handlers(in state: HandlerStatus.State? = nil) throws -> [HandlerStatus] {
        try store.step { try $0.handlers(in: state) }
    }

    /// Turns the clock to the time at which the handler is due, and does what is due then.
    func runWhenDue<Context>(_ id: HandlerID<Context>) throws {
        guard let due = try status(of: id)?.dueAt else { return }
        clock.advance(by: .milliseconds(due.milliseconds - now))
        try runner.runDue()
    }

    @discardableResult
    func end(
        _ id: HandlerID<Job>, with job: Job = Job(), overriding overrides: Record = Record()
    ) throws -> Disposition {
        try store.step { try $0.end(id, .result, with: job, overriding: overrides) }
    }

    @discardableResult
    func invalidate<Context>(
        _ id: HandlerID<Context>, _ reason: InvalidationReason = .cancelled,
        overriding overrides: Record = Record(),
        in workshop: Workshop? = nil
    ) throws -> Disposition {
        try store.step {
            try $0.invalidate(id, reason: reason, overriding: overrides, environment: workshop)
        }
    }
}

/// Lends a rig on a fresh folder.
func withRig(
    _ handlers: [any DurableHandler.Type], role: HandlerStore.Role = .main, _ body: (Rig) throws -> Void
) throws {
    try withFolder { folder in try withRig(folder.file(), handlers, role: role, body) }
}

/// Lends a rig on a file, as one process after another has it.
func withRig(
    _ path: String, _ handlers: [any DurableHandler.Type], role: HandlerStore.Role = .main,
    clock: VirtualClock = VirtualClock(), _ body: (Rig) throws -> Void
) throws {
    let rig = try Rig(path, handlers, role: role, clock: clock)
    defer { rig.runner.close() }
    try body(rig)
}

/// A live object that handlers are bound in the service of.
final class Workshop: HandlerEnvironment, Sendable {
    let scope: HandlerScope
    private let log = Mutex<[String]>([])

    init(_ name: String = "workshop") { scope = HandlerScope(name) }
    var said: [String] { log.withLock { $0 } }
    func say(_ text: String) { log.withLock { $0.append(text) } }
}

/// What runtime tests call handlers with: a word that is kept, and a workshop that is found again.
struct Job: RestorableContext {
    var word = "go"
    var workshop: Workshop?

    var environment: (any HandlerEnvironment)? { workshop }
    static let storage = ContextStorage<Job>(encode: { Array($0.word.utf8) }, decode: Job.init(restoring:in:))
    init(_ word: String = "go", in workshop: Workshop? = nil) {
        self.word = word
        self.workshop = workshop
    }
    init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) {
        self.init(String(decoding: bytes, as: UTF8.self), in: environment as? Workshop)
    }
}

/// A context that cannot be kept.
struct Fleeting: Sendable { var word = "now" }

// MARK: Policies

protocol Policy: Sendable { static var retry: RetryPolicy { get } }
enum Standard: Policy { static let retry = RetryPolicy.standard }
enum Never: Policy { static let retry = RetryPolicy.never }
enum Thrice: Policy { static let retry = RetryPolicy(attempts: 3, firstDelay: .seconds(10), factor: 1) }
enum AtOnce: Policy { static let retry = RetryPolicy(attempts: 4, firstDelay: .zero) }

// MARK: Handlers

/// Fails until its attempt `until`, then says what it was called with.
struct Flaky<P: Policy>: Handler {
    static var id: String { "test.flaky.\(P.self)" }
    static var retry: RetryPolicy { P.retry }
    var name: String
    var until = Int.max

    func run(_ call: borrowing Call<Job>) throws {
        try call.step.note("\(name) \(call.word) \(call.workshop?.scope.rawValue ?? "-") \(call.attempt)")
        if call.attempt < until { throw Failure(description: "\(name) failed \(call.attempt)") }
    }
}

/// The same for an invalidation.
struct FlakyEnd<P: Policy>: Handler {
    static var id: String { "test.flaky-end.\(P.self)" }
    static var retry: RetryPolicy { P.retry }
    var name: String
    /// The time on the wall before which it fails.
    var until: Int64 = .max

    func run(_ call: borrowing Call<Invalidation>) throws {
        let workshop = call.environment as? Workshop
        try call.step.note("\(name) \(call.handler) \(call.reason) \(workshop?.scope.rawValue ?? "-")")
        if call.step.now.milliseconds < until { throw Failure(description: "\(name) failed") }
    }
}

/// The same for a timer.
struct FlakyTimer: Handler {
    static let id = "test.flaky-timer"
    var name: String
    var until = Int.max

    func run(_ call: borrowing Call<TimerFired>) throws {
        try call.step.note("\(name) \(call.dueAt.milliseconds) \(call.missed) \(call.attempt)")
        if call.attempt < until { throw Failure(description: "\(name) failed") }
    }
}

/// Runs its argument.
struct Relay<P: Policy>: Handler {
    static var id: String { "test.relay.\(P.self)" }
    static var retry: RetryPolicy { P.retry }
    var then: Durable<Job>
    /// Whether it swallows what its argument throws.
    var swallows = false

    func run(_ call: borrowing Call<Job>) throws {
        do { try call.step.run(then, with: call.context) } catch  where swallows {}
    }
}

/// Says that it was invalidated, and why.
struct Gone: Handler {
    static let id = "test.gone"
    static let retry = RetryPolicy.never
    var name: String

    func run(_ call: borrowing Call<Invalidation>) throws {
        try call.step.note("\(name) gone: \(call.handler) \(call.reason)")
    }
}

/// Says that it was called.
struct Say: Handler {
    static let id = "test.say"
    static let retry = RetryPolicy.never
    var name: String

    func run(_ call: borrowing Call<Job>) throws { try call.step.note("\(name) \(call.word)") }
}

/// Writes its text, whatever it is called with.
struct Write<Context: Sendable>: Handler {
    static var id: String { "test.write.\(Context.self)" }
    var text: String

    func run(_ call: borrowing Call<Context>) throws { try call.step.note(text) }
}

extension Step {
    func note(_ text: String) throws(HandlerError) {
        try execute("INSERT INTO note(text) VALUES (?)", text)
    }
}
