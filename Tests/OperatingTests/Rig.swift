import Handlers
import HandlersTestKit
import TestSupport

struct Word: RestorableContext {
    var text = "go"
    static let storage = ContextStorage<Word>(
        encode: { Array($0.text.utf8) },
        decode: { bytes, _ in Word(text: String(decoding: bytes, as: UTF8.self)) })
    var environment: (any HandlerEnvironment)? { nil }
}

extension Word {
    init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) {
        text = String(decoding: bytes, as: UTF8.self)
    }
}

struct Refused: Error, CustomStringConvertible {
    let description: String
}

/// Fails until its run `until`.
struct Stubborn: Handler {
    static let id = "mail.stubborn"
    static let retry = RetryPolicy(attempts: 8, firstDelay: .seconds(10), factor: 1)
    var until = Int.max
    func run(_ call: borrowing Call<Word>) throws {
        if call.attempt < until { throw Refused(description: "refused \(call.attempt)") }
    }
}

/// Fails at once and for good.
struct Broken: Handler {
    static let id = "mail.broken"
    static let retry = RetryPolicy.never
    var order = 0
    func run(_ call: borrowing Call<Word>) throws { throw Refused(description: "never") }
}

struct Fine: Handler {
    static let id = "shop.fine"
    var order: JSONValue = .null
    func run(_ call: borrowing Call<Word>) throws {}
}

struct Undone: Handler {
    static let id = "shop.undone"
    func run(_ call: borrowing Call<Invalidation>) throws {
        try call.step.execute("INSERT INTO note(text) VALUES (?)", "\(call.context.reason)")
    }
}

/// Notes when it is called.
struct Tick: Handler {
    static let id = "shop.tick"
    func run(_ call: borrowing Call<TimerFired>) throws {
        try call.step.execute("INSERT INTO note(text) VALUES ('tick')")
    }
}

/// A store on a clock that a test turns, and a runner that does something only when it is told to.
struct Rig {
    let folder: TemporaryFolder
    let clock: VirtualClock
    let store: HandlerStore
    let runner: HandlerRunner
    static let ada = RepairAuthor("ada", because: "the server is back", by: .command)

    init(_ folder: TemporaryFolder? = nil, _ clock: VirtualClock = VirtualClock()) throws {
        self.folder = try folder ?? TemporaryFolder()
        self.clock = clock
        store = try TestEngine.open(
            "\(self.folder.path)/store.db",
            registry: HandlerRegistry([
                Stubborn.self, Broken.self, Fine.self, Undone.self, Tick.self, Held.self,
            ]),
            schemas: [Schema(module: "notes", migrations: ["CREATE TABLE note(text TEXT NOT NULL)"])],
            time: clock.timeSource)
        runner = try HandlerRunner(store)
    }

    func pass(_ time: Duration = .zero) throws {
        clock.advance(by: time)
        try runner.runDue()
    }

    func notes() throws -> [String] {
        try store.read { try $0.all("SELECT text FROM note ORDER BY text") { $0.text(0) } }
    }

    /// Binds a handler and calls it.
    @discardableResult
    func call(_ handler: Durable<Word>) throws -> HandlerID<Word> {
        try store.step { step in
            let id = try step.bind(handler)
            try step.end(id, .result, with: Word())
            return id
        }
    }
}
