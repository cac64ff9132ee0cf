/// Outcome of a bound handler. Each handler that is bound once has exactly one.
///
/// ```swift
/// try step.end(id, .result, with: Payment(cents: 1999))
/// ```
public enum Outcome: Int64, Hashable, Sendable, Codable, CaseIterable {
    /// Called with the result it waited for.
    case result = 1
    /// Called with an error answer.
    case error = 2
    /// Called because its time ran out.
    case timeout = 3
    /// Never to be called any more; its invalidation ran instead.
    case invalidated = 4
}

/// The ending of a handler: late and repeated answers find it.
///
/// ```swift
/// if let ending = try step.ending(of: id), ending.outcome == .invalidated {
///     print("\(ending.name) can never be called: \(ending.reason?.rawValue ?? "")")
/// }
/// ```
public struct Ending: Hashable, Sendable {
    /// The handler's row.
    public let handler: AnyHandlerID
    /// The handler's stored name.
    public let name: String
    /// Outcome of the handler.
    public let outcome: Outcome
    /// The reason of an invalidation or timeout. Nil if the handler was called.
    public let reason: InvalidationReason?
    /// When it ended, by the wall clock.
    public let endedAt: Timestamp
    /// Root of the chain: the handler that was bound outside of any handler and led to this one. All handlers of a
    /// chain have the same root.
    public let trace: AnyHandlerID
    /// What the program called it; see ``Step/bind(_:key:ifTaken:timeout:deadline:in:)``.
    public let key: String?
    /// Why it failed; nil for one that did not fail. It is kept as long as the ending.
    public let error: CallError?
    /// What it returned, as JSON; nil for nothing.
    package let returned: [UInt8]?
}

extension Ending: CustomStringConvertible {
    /// The ending in one line: row, name, outcome, reason and error.
    public var description: String { sentence + (error.map { ": \($0)" } ?? "") }

    /// The same without the error.
    var sentence: String {
        "the handler \(handler) ('\(name)') ended with '\(outcome)'\(reason.map { " (\($0))" } ?? "")"
    }
}

extension Ending {
    static func select(_ condition: String) -> String {
        "SELECT handler, name, outcome, reason, ended_at, trace, key, result, code, error FROM ending LEFT JOIN ending_detail USING (handler) WHERE \(condition)"
    }

    static func read(_ row: borrowing Row) throws(HandlerError) -> Ending {
        let id = AnyHandlerID(rawValue: row.integer(0))
        guard let outcome = Outcome(rawValue: row.integer(2)) else {
            throw HandlerError(
                .databaseNewer,
                "the handler \(id) ended in a way this program does not know (\(row.integer(2))); update the program"
            )
        }
        return Ending(
            handler: id, name: row.text(1), outcome: outcome,
            reason: row.optionalText(3).map(InvalidationReason.init(rawValue:)), endedAt: row.timestamp(4),
            trace: row.optionalInteger(5).map(AnyHandlerID.init(rawValue:)) ?? id, key: row.optionalText(6),
            error: CallError(storedCode: row.optionalText(8), message: row.optionalText(9)),
            returned: row.isNull(7) ? nil : row.blob(7))
    }
}

/// Row of a bound handler, with the type of its context. Ids grow and are never reused.
///
/// It can be bound to a statement, so a program keeps it beside what the handler waits for. What is read back from a column
/// has the type that the program gives it:
///
/// ```swift
/// let id = try step.bind(Thank(customer: "Ada").durable)
/// try step.execute("INSERT INTO unpaid(handler) VALUES (?)", id)
/// …
/// let unpaid = try step.first("SELECT handler FROM unpaid") { HandlerID<Payment>(rawValue: $0.integer(0)) }
/// ```
public struct HandlerID<Context: Sendable>: PrintedRawValue, RawRepresentable, Hashable, Sendable, Codable,
    CustomStringConvertible
{
    public let rawValue: Int64
    public init(rawValue: Int64) { self.rawValue = rawValue }
}

/// Row of a handler whose context is unknown, as in lists. It can be invalidated and repaired, but neither called nor ended.
public typealias AnyHandlerID = HandlerID<Never>

extension HandlerID where Context == Never {
    /// Makes an id without the type of its context.
    ///
    /// - Parameter id: The handler's row.
    public init<Other>(_ id: HandlerID<Other>) { rawValue = id.rawValue }
}

extension HandlerID {
    /// Makes an id for a handler that a module knows to be called with this context.
    package init(of id: AnyHandlerID) { rawValue = id.rawValue }
}

/// The reason why a handler can never be called any more.
///
/// Open for reasons of a program's own:
///
/// ```swift
/// extension InvalidationReason { static let shopClosed = Self(rawValue: "shop-closed") }
/// try step.invalidate(id, reason: .shopClosed)
/// ```
public struct InvalidationReason: PrintedRawValue, RawRepresentable, Hashable, Sendable, Codable,
    CustomStringConvertible
{
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The program canceled what the handler waited for.
    public static let cancelled = InvalidationReason(rawValue: "cancelled")
    /// The account was logged out.
    public static let logout = InvalidationReason(rawValue: "logout")
    /// The session in which the request was sent cannot be resumed. Its answer will never come.
    public static let sessionLost = InvalidationReason(rawValue: "session-lost")
    /// Another handler took its key; see ``KeyRule/replace``.
    public static let replaced = InvalidationReason(rawValue: "replaced")
    /// Its time ran out before it was called; see ``Step/bind(_:timeout:deadline:in:)``.
    public static let timedOut = InvalidationReason(rawValue: "timed-out")
    /// The time of its chain is over; see ``Step/withChainLimit(_:_:)``.
    public static let chainLimit = InvalidationReason(rawValue: "chain-limit")
    /// It failed for good; see ``RetryPolicy/Finally/orElse``.
    public static let failed = InvalidationReason(rawValue: "failed")
    /// Someone invalidated it by hand; see ``HandlerRepair/invalidate``.
    public static let byHand = InvalidationReason(rawValue: "by-hand")
    /// Someone discarded the row by hand.
    public static let discarded = InvalidationReason(rawValue: "discarded")
}

/// The context of an invalidation: a handler bound with ``Durable/orElse(_:)`` receives it.
///
/// ```swift
/// struct NotPaid: Handler {
///     static let id = "shop.not-paid"
///     var customer: String
///     func run(_ call: borrowing Call<Invalidation>) throws {
///         try call.step.execute("INSERT INTO letter VALUES (?)", "\(customer): \(call.reason)")
///     }
/// }
/// try step.bind(Thank(customer: "Ada").durable.orElse(NotPaid(customer: "Ada").durable))
/// ```
public struct Invalidation: StoredContext, RestorableContext {
    /// The reason why the handler can never be called.
    public let reason: InvalidationReason
    /// The stored name of the handler that is invalidated.
    public let handler: String
    /// Why the handler failed. Nil for one that did not fail.
    public let error: CallError?
    /// The environment in which the handler was bound, for example an account. Nil when there is none.
    public let environment: (any HandlerEnvironment)?

    package init(
        reason: InvalidationReason, handler: String, error: CallError? = nil,
        environment: (any HandlerEnvironment)? = nil
    ) {
        self.reason = reason
        self.handler = handler
        self.error = error
        self.environment = environment
    }

    private struct Stored: Codable {
        var reason: InvalidationReason
        var handler: String
        var error: CallError?
    }

    package func stored() throws -> [UInt8] {
        try ArgumentCoding.encode(Stored(reason: reason, handler: handler, error: error))
    }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        let stored = try ArgumentCoding.value(Stored.self, from: bytes)
        self.init(
            reason: stored.reason, handler: stored.handler, error: stored.error, environment: environment)
    }
}
