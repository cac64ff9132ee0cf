/// When a handler is called that waits for others.
///
/// ```swift
/// try step.join(Confirm(order: "17").durable, when: .quorum(1), of: [AnyHandlerID(id)])
/// ```
public enum JoinRule: Hashable, Sendable {
    /// All have ended, whichever way.
    case all
    /// One has ended with the outcome `result`, or all have ended.
    case any
    /// So many have ended with the outcome `result`, or too many otherwise.
    case quorum(Int)
}

/// The context of a handler that waited for others; see ``Step/join(_:when:of:timeout:deadline:in:)``.
///
/// ```swift
/// struct Confirm: Handler {
///     static let id = "shop.confirm"
///     var order: String
///     func run(_ call: borrowing Call<Joined>) throws {
///         let offers = try call.children().compactMap { try? $0.result(as: Payment.self) }
///         try call.step.execute("INSERT INTO offer VALUES (?, ?)", order, offers.map(\.cents).min())
///     }
/// }
/// ```
public struct Joined: RestorableContext, Codable {
    /// The row of the handler that waited.
    let handler: AnyHandlerID
}

/// A handler for which another one waited.
public struct JoinedChild: Hashable, Sendable, Codable {
    /// The handler's row.
    public let handler: AnyHandlerID
    /// The stored name.
    public let name: String
    /// Outcome of the handler; nil while it has not ended.
    public let outcome: Outcome?
    /// The reason of an invalidation or timeout.
    public let reason: InvalidationReason?
    /// Why it failed; nil for one that did not fail.
    public let error: CallError?
    private let returned: [UInt8]?

    private enum CodingKeys: String, CodingKey {
        case handler, name, outcome, reason, error, result
    }

    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        handler = try values.decode(AnyHandlerID.self, forKey: .handler)
        name = try values.decode(String.self, forKey: .name)
        outcome = try values.decodeIfPresent(Outcome.self, forKey: .outcome)
        reason = try values.decodeIfPresent(InvalidationReason.self, forKey: .reason)
        error = try values.decodeIfPresent(CallError.self, forKey: .error)
        returned = try values.decodeIfPresent(String.self, forKey: .result).map { Array($0.utf8) }
    }

    public func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encode(handler, forKey: .handler)
        try values.encode(name, forKey: .name)
        try values.encodeIfPresent(outcome, forKey: .outcome)
        try values.encodeIfPresent(reason, forKey: .reason)
        try values.encodeIfPresent(error, forKey: .error)
        // JSON in a text: as a list of numbers it would be four times as long.
        try values.encodeIfPresent(returned.map { String(decoding: $0, as: UTF8.self) }, forKey: .result)
    }

    /// - Parameter calls: The handlers whose calls run at this moment: these have no row.
    fileprivate init(_ row: borrowing Row, _ calls: [StoredHandler]) {
        let id = AnyHandlerID(rawValue: row.integer(0))
        handler = id
        name = row.optionalText(1) ?? calls.last { $0.id == id }?.name.string ?? ""
        outcome = row.optionalInteger(2).flatMap(Outcome.init)
        reason = row.optionalText(3).map(InvalidationReason.init(rawValue:))
        returned = row.isNull(4) ? nil : row.blob(4)
        error = CallError(storedCode: row.optionalText(5), message: row.optionalText(6))
    }

    /// - Throws: ``CallError`` when it failed; ``HandlerError`` `noResult` unless it ended with the outcome `result`.
    func check() throws {
        if let error { throw error }
        guard outcome == .result else {
            let end =
                outcome.map { "ended with '\($0)'\(reason.map { " (\($0))" } ?? "")" } ?? "has not ended"
            throw HandlerError(.noResult, "the handler \(handler) ('\(name)') \(end)")
        }
    }

    /// Reads what the handler returned.
    ///
    /// - Parameter type: The type of the result; inferred where the context says it.
    /// - Returns: The result; see ``Call/setResult(_:)``.
    /// - Throws: ``CallError`` by its code when it failed; ``HandlerError`` `noResult` when it ended otherwise, returned nothing or has not
    ///   ended, `wrongArgument` when the result has another type.
    public func result<Value: Decodable>(as type: Value.Type = Value.self) throws -> Value {
        if let error { throw error }
        guard let returned else {
            try check()
            throw HandlerError(.noResult, "the handler \(handler) ('\(name)') returned nothing")
        }
        return try HandlerResult.value(type, from: returned, of: name)
    }
}

extension Call where Context == Joined {
    /// The handlers for which this one waited, in the order in which they were given.
    ///
    /// - Returns: Those that had not ended when this one was called have no outcome.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func children() throws(HandlerError) -> [JoinedChild] { try step.children(of: context.handler) }
}

extension AsyncCall where Context == Joined {
    /// The handlers for which this one waited, in the order in which they were given.
    ///
    /// - Returns: Those that had not ended when this one was called have no outcome.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func children() throws -> [JoinedChild] {
        try lease.read { try $0.children(of: context.handler, during: []) }
    }
}

extension Step {
    /// Stores a handler that is called when others have ended, in the step in which the last one does.
    ///
    /// ```swift
    /// let asked = try ["Ada", "Eve"].map { AnyHandlerID(try step.bind(Thank(customer: $0).durable)) }
    /// try step.join(Confirm(order: "17").durable, when: .all, of: asked, timeout: .seconds(60))
    /// ```
    ///
    /// When it ends, those that have not ended are invalidated with the reason `cancelled`: also when it is invalidated itself, or its time is
    /// over. A ``HandlerRunner`` does that, some of them in each of its steps. It also calls the handler where that cannot run in the step in
    /// which the last one ends: in a process that does not know it, or deep inside other handlers.
    ///
    /// - Parameters:
    ///   - handler: The handler with its arguments.
    ///   - rule: When it is called.
    ///   - children: The handlers that it waits for, at most 10 000, each bound once and child of no other one. They may have ended, if their
    ///     endings are still kept.
    ///   - timeout: How much connected time it has; nil for any. See ``bind(_:timeout:deadline:in:)``.
    ///   - deadline: Also when the wall clock passes this; nil for never.
    ///   - scope: Whose connected time counts, and whose environment ``Invalidation`` gets; nil for the program as a whole.
    /// - Returns: The handler's row.
    /// - Throws: ``HandlerError`` `noSuchHandler` when a child has ended and its ending was forgotten, or it never existed, or it is a standing
    ///   one; `tooManyChildren`; `sql` when it is the child of another handler; or with the codes of the store.
    @discardableResult
    public func join(
        _ handler: Durable<Joined>, when rule: JoinRule, of children: [AnyHandlerID],
        timeout: Duration? = nil,
        deadline: Timestamp? = nil, in scope: HandlerScope? = nil
    ) throws -> HandlerID<Joined> {
        var id = AnyHandlerID(rawValue: 0)
        // Whole or not at all, also for a caller that goes on after the error.
        try transaction.undoingOnError {
            id = try transaction.handlers.bind(
                handler, kind: .once, timing: .init(timeout: timeout, deadline: deadline, scope: scope),
                relations: .parent)
            try transaction.joins.join(id, rule, children)
        }
        return HandlerID(of: id)
    }
}

extension Step {
    func children(of parent: AnyHandlerID) throws(HandlerError) -> [JoinedChild] {
        try children(of: parent, during: transaction.callStack)
    }
}

extension ReadableStore where Self: ~Copyable {
    /// A handler that has ended, in the form in which others learn of it.
    func endedChild(_ id: AnyHandlerID) throws(HandlerError) -> JoinedChild? {
        try first(
            """
            SELECT ending.handler, name, outcome, reason, result, code, error
            FROM ending LEFT JOIN ending_detail ON ending_detail.handler = ending.handler WHERE ending.handler = ?
            """, id
        ) { JoinedChild($0, []) }
    }

    /// A join with the three tables would have PostgreSQL read all of them, where it has no statistics.
    ///
    /// - Parameter calls: The handlers whose calls run at this moment.
    fileprivate func children(
        of parent: AnyHandlerID, during calls: [StoredHandler]
    ) throws(HandlerError) -> [JoinedChild] {
        try all(
            """
            SELECT handler,
                coalesce((SELECT name FROM ending WHERE ending.handler = join_child.handler),
                    (SELECT name FROM handler WHERE handler.id = join_child.handler)),
                (SELECT outcome FROM ending WHERE ending.handler = join_child.handler),
                (SELECT reason FROM ending WHERE ending.handler = join_child.handler),
                (SELECT result FROM ending_detail WHERE ending_detail.handler = join_child.handler),
                (SELECT code FROM ending_detail WHERE ending_detail.handler = join_child.handler),
                (SELECT error FROM ending_detail WHERE ending_detail.handler = join_child.handler)
            FROM join_child WHERE parent = ? ORDER BY position
            """, parent
        ) { JoinedChild($0, calls) }
    }
}
