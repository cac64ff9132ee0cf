/// What async handlers have saved of their progress, until they end.
struct SavedProgress: HandlerFeature {
    static let relations = Relations.saved
    let transaction: Transaction

    /// Keeps a value in the place of the one before.
    func save(_ value: [UInt8], note: String?, of handler: AnyHandlerID) throws(HandlerError) {
        try connection.write(
            """
            INSERT INTO handler_progress(handler, value, note, at) VALUES (?, ?, ?, ?)
            ON CONFLICT(handler) DO UPDATE SET value = excluded.value, note = excluded.note, at = excluded.at
            """, [handler, value, note.map { StoredReason($0) }, now])
    }

    func ended(_ id: AnyHandlerID, _ stored: StoredHandler, _ outcome: Outcome) throws(HandlerError) {
        try connection.write("DELETE FROM handler_progress WHERE handler = ?", [id])
    }
}

extension Leases {
    /// Keeps how far a leased handler has come.
    fileprivate func save<R>(
        _ lease: Lease, _ value: [UInt8], note: String?, _ effects: (borrowing Step) throws -> R
    ) throws -> R {
        let relations = try connection.first(Self.selectLeased, [lease.handler, lease.epoch]) {
            Relations(rawValue: $0.integer(0))
        }
        guard let relations else { throw lease.lost() }
        if !relations.contains(.saved) { try handlers.add(.saved, to: lease.handler) }
        try SavedProgress(transaction: transaction).save(value, note: note, of: lease.handler)
        defer { transaction.slot.clearRunningCall() }
        return try transaction.calling(lease.stored.with(relations, key: nil)) {
            try effects(Step(transaction))
        }
    }
}

extension Lease {
    /// Keeps how far the handler has come.
    func save<R>(
        _ value: [UInt8], note: String?, _ effects: (borrowing Step) throws -> R
    ) throws -> R {
        if hasEnded { throw lost("it has ended") }
        let result = try store.step { try $0.transaction.leases.save(self, value, note: note, effects) }
        saves.add(1, ordering: .relaxed)
        return result
    }
}

extension ReadableStore where Self: ~Copyable {
    func savedProgress(of handler: AnyHandlerID) throws(HandlerError) -> [UInt8]? {
        try first("SELECT value FROM handler_progress WHERE handler = ?", handler) { $0.blob(0) }
    }

    /// Returns what an async handler has said last about its progress, and when; nil for one that has said nothing.
    ///
    /// ```swift
    /// if let progress = try store.read({ try $0.progress(of: id) }) { print(progress.note ?? "", progress.savedAt) }
    /// ```
    ///
    /// - Parameter id: The handler's row.
    /// - Returns: The progress of a handler that has not ended.
    /// - Throws: ``HandlerError`` with the codes of the store.
    public func progress<Context>(of id: HandlerID<Context>) throws(HandlerError) -> HandlerProgress? {
        try first("SELECT note, at, value FROM handler_progress WHERE handler = ?", id) {
            HandlerProgress(note: $0.optionalText(0), savedAt: $0.timestamp(1), value: $0.blob(2))
        }
    }
}

/// What an async handler has saved of its progress; see ``AsyncCall/save(_:note:)``.
public struct HandlerProgress: Hashable, Sendable {
    /// What it said for people.
    public let note: String?
    /// When, by the wall clock.
    public let savedAt: Timestamp
    private let value: [UInt8]

    fileprivate init(note: String?, savedAt: Timestamp, value: [UInt8]) {
        (self.note, self.savedAt, self.value) = (note, savedAt, value)
    }

    /// Reads the value.
    ///
    /// - Parameter type: The type of the value; inferred where the context says it.
    /// - Returns: What the handler saved last.
    /// - Throws: ``HandlerError`` `wrongArgument` when the value has another type.
    public func value<Value: Decodable>(as type: Value.Type = Value.self) throws(HandlerError) -> Value {
        try HandlerResult.value(type, from: value, of: "its progress")
    }
}
