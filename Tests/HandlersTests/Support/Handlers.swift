import Handlers
import Synchronization
import TestSupport
import Testing

/// What the test handlers are called with: a word, and what a test wants done inside the handler.
struct Reply: Sendable, HandlerEnvironment {
    var scope: HandlerScope { HandlerScope("test") }
    var word = "Hello"
    var action: @Sendable (borrowing Step) throws -> Void = { _ in }
}

/// Kept by its word alone.
extension Reply: RestorableContext {
    var environment: (any HandlerEnvironment)? { nil }
    static let storage = ContextStorage<Reply>(
        encode: { Array($0.word.utf8) }, decode: Reply.init(restoring:in:))
    init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) {
        self.init(word: String(decoding: bytes, as: UTF8.self))
    }
}

struct Failure: Error, CustomStringConvertible {
    var description = "the handler did not want to"
}

/// Writes a greeting, then does what the call asks for.
struct Greet: Handler {
    static let id = "test.greet"
    static let retry = RetryPolicy.never
    var name: String
    var punctuation: String? = nil

    func run(_ call: borrowing Call<Reply>) throws {
        try call.step.execute(
            "INSERT INTO note(text) VALUES (?)", "\(call.word), \(name)\(punctuation ?? "")")
        try call.action(call.step)
    }
}

/// An invalidation: writes down why, then does what a `Reply` in its environment asks for.
struct Abandon: Handler {
    static let id = "test.abandon"
    static let retry = RetryPolicy.never
    var name: String

    func run(_ call: borrowing Call<Invalidation>) throws {
        let reply = call.environment as? Reply
        try call.step.execute(
            "INSERT INTO note(text) VALUES (?)",
            "\(name): \(call.handler) \(call.reason) \(reply?.word ?? "nothing")")
        try reply?.action(call.step)
    }
}

/// Where ``Holding`` puts the value that was bound.
final class Sink<Value: Sendable>: Sendable {
    private let state = Mutex<[Value]>([])
    var values: [Value] { state.withLock { $0 } }
    func append(_ value: Value) { state.withLock { $0.append(value) } }
}

/// Hands its bound value to the call.
struct Holding<Value: Codable & Sendable>: Handler {
    static var id: String { "test.holding.\(Value.self)" }
    static var retry: RetryPolicy { .never }
    var value: Value

    func run(_ call: borrowing Call<Sink<Value>>) throws { call.context.append(value) }
}

/// Adds one to a counter row: an effect that shows a repeat.
struct Count: Handler {
    static let id = "test.count"
    static let retry = RetryPolicy.never

    func run(_ call: borrowing Call<Reply>) throws {
        try call.step.execute("INSERT INTO note(text) VALUES ('counted')")
    }
}

let notes = Schema(
    module: "notes", migrations: ["CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT NOT NULL)"])

/// Opens a store with the test handlers and the table `note`.
///
/// Commits do not wait for the disk unless a test asks for it: hundreds of tests that do would hold up all others.
func openStore(
    _ path: String, _ handlers: [any DurableHandler.Type] = [Greet.self, Abandon.self, Count.self],
    schemas: [Schema] = [notes], synchronous: HandlerStore.Synchronous = .normal,
    busyTimeout: Duration = .seconds(5),
    time: TimeSource = TimeSource(wall: { Timestamp(milliseconds: 1_700_000_000_000) })
) throws -> HandlerStore {
    try TestEngine.open(
        path, registry: HandlerRegistry(handlers), schemas: schemas, synchronous: synchronous,
        busyTimeout: busyTimeout, time: time)
}

/// The state column of the handler table.
enum RowState {
    static let pending: Int64 = 0
    static let parked: Int64 = 1
    static let quarantined: Int64 = 2
}

/// A row that waits in the handler table.
struct WaitingRow: Equatable {
    var id: HandlerID<Reply>
    var state: Int64
    var reason: String?
    var input: [UInt8]
    var attempts: Int64
}

extension HandlerStore {
    func integer(_ sql: String) throws -> Int64? { try step { try $0.first(sql) { $0.integer(0) } } }

    func texts(_ sql: String, column: Int = 0) throws -> [String] {
        try step { try $0.all(sql) { $0.text(column) } }
    }

    /// What the handlers wrote, in order.
    func notes() throws -> [String] { try texts("SELECT text FROM note ORDER BY id") }

    /// Every row that has not ended, oldest first.
    func waiting() throws -> [WaitingRow] {
        try step {
            try $0.all("SELECT id, state, reason, input, attempts FROM handler ORDER BY id") {
                WaitingRow(
                    id: HandlerID(rawValue: $0.integer(0)), state: $0.integer(1),
                    reason: $0.optionalText(2),
                    input: $0.blob(3), attempts: $0.integer(4))
            }
        }
    }

    func keptEnding<Context>(of id: HandlerID<Context>) throws -> Ending? {
        try step { try $0.ending(of: id) }
    }

    @discardableResult
    func bind<Context>(_ handler: Durable<Context>, orElse: Durable<Invalidation>? = nil) throws
        -> HandlerID<Context>
    {
        try step { try $0.bind(handler.orElse(orElse)) }
    }

    @discardableResult
    func end(
        _ id: HandlerID<Reply>, _ outcome: Outcome = .result, with reply: Reply = Reply(),
        overriding overrides: Record = Record()
    ) throws -> Disposition {
        try step { try $0.end(id, outcome, with: reply, overriding: overrides) }
    }
}

/// The code of the ``HandlerError`` that `body` throws; nil when it throws none.
func code<R>(of body: () throws -> R) -> ErrorCode<HandlerError>? { error(of: body)?.code }

/// The ``HandlerError`` that `body` throws; nil when it throws none.
func error<R>(of body: () throws -> R) -> HandlerError? {
    do {
        _ = try body()
        return nil
    } catch let error as HandlerError {
        return error
    } catch {
        Issue.record("not a HandlerError: \(error)")
        return nil
    }
}

/// What a ending says, in one comparable line.
func line(_ ending: Ending?) -> String? {
    ending.map {
        "\($0.handler) \($0.name) \($0.outcome) \($0.reason?.rawValue ?? "-") \($0.endedAt.milliseconds)"
    }
}
