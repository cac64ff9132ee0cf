// Handlers: callbacks that outlive the process that made them.
//
// A handler is a named type with Codable arguments. Binding it writes one row next to whatever it waits for; ending
// it deletes that row, writes its effects and leaves a tombstone, all in one SQLite transaction (a `Step`).
//
//     Handler ──Durable──▶ Step.bind ──▶ row "handler" ──Step.end──▶ HandlerRegistry ──▶ Handler.run(Call)
//     (arguments)                                       (context)                         │
//                                          row "ending" ◀───────── the same commit ◀──────┘ effects

/// A named callback whose arguments are stored and which may be called by another process.
///
/// The stored properties of the conforming type are the **bound** arguments: they are encoded by name when the
/// handler is bound. What only the call knows (the live account, a reply) arrives as ``Call/context``.
///
/// ```swift
/// struct Greet: Handler {
///     static let id = "demo.greet"
///     var name: String
///     func run(_ call: borrowing Call<Reply>) throws {
///         try call.step.execute("INSERT INTO greeting(text) VALUES (?)", "\(call.word), \(name)")
///     }
/// }
/// ```
///
/// `run` is synchronous and runs inside the transaction: what it writes through ``Call/step`` commits or rolls back
/// together with the handler's ending. If it throws, its writes are undone and its row is set aside in quarantine
/// with the error.
public protocol Handler: Codable, Sendable {
    /// What the caller supplies when the handler runs; need not be Codable.
    associatedtype Context: Sendable

    /// The name that is stored. It must never change; a renamed handler lists its old names in ``aliases``.
    ///
    /// There is no default on purpose: a name derived from a Swift name changes when the code is refactored, and
    /// rows that wait under the old name would never be found again.
    static var id: String { get }

    /// The version of the argument list, from 1. Raise it when arguments change incompatibly; see ``upcast(_:from:)``.
    static var version: Int { get }

    /// Former values of ``id`` under which rows may still wait.
    static var aliases: [String] { get }

    /// Turns arguments stored by an older version into those of the next version.
    ///
    /// - Parameters:
    ///   - arguments: The stored arguments by name, changed in place.
    ///   - version: The version to convert from, `1 ..< Self.version`; called once for each version in turn.
    /// - Throws: Any error; the row is then set aside in quarantine with it.
    static func upcast(_ arguments: inout Record, from version: Int) throws

    /// Runs inside the step, exactly once for a handler bound with ``Step/bind(_:orElse:)``.
    ///
    /// - Parameter call: What the call supplies: the context and the step. It is lent and cannot be kept.
    /// - Throws: Any error; the handler's writes are undone and its row goes to quarantine.
    func run(_ call: borrowing Call<Context>) throws
}

extension Handler {
    public static var version: Int { 1 }
    public static var aliases: [String] { [] }
    public static func upcast(_ arguments: inout Record, from version: Int) throws {}

    /// This handler with its arguments, ready to be stored.
    ///
    /// - Throws: ``HandlerError`` with code `argumentNotEncodable` when an argument cannot be stored, for example
    ///   a `Double` that is not a number.
    public var durable: Durable<Context> {
        get throws(HandlerError) { try Durable(self) }
    }
}
