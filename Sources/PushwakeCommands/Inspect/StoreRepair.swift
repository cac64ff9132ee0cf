package import Handlers
import Simulation

/// A manual repair of quarantined or parked handlers.
package enum StoreRepair: Equatable {
    case requeue(AnyHandlerID)
    case requeueAll
    case discard(AnyHandlerID)
    case invalidate(AnyHandlerID)

    /// The repair of one handler.
    package struct Done: Codable {
        /// `requeue`, `discard` or `invalidate`.
        package var action: String
        package var row: Int64
        package var handler: String
        /// The effect on the handler.
        package var effect: String

        var text: String { "\(effect): \(row) \(handler)" }
    }

    /// Performs all repairs in one transaction. A repair that fails rolls back the earlier ones.
    ///
    /// - Parameter open: Opens the store for writing, which was read successfully before.
    static func perform(
        _ repairs: [StoreRepair], in open: (HandlerRegistry) throws -> HandlerStore
    ) throws -> [Done] {
        let store = try open(.discovered(and: SimulationApp.handlers))
        return try store.step { step in try repairs.flatMap { try $0.perform(step) } }
    }

    private func perform(_ step: borrowing Step) throws -> [Done] {
        switch self {
        case .requeue(let id):
            let name = try Self.name(of: id, step)
            try step.requeue(id)
            return [try Self.requeued(id, name, step)]
        case .requeueAll: return try Self.requeueAll(step)
        case .discard(let id):
            let name = try Self.name(of: id, step)
            try Self.release(id, step)
            try step.discard(id)
            return [
                Done(
                    action: "discard", row: id.rawValue, handler: name,
                    effect: "discarded, nothing ran for it")
            ]
        case .invalidate(let id): return [try Self.invalidate(id, step)]
        }
    }

    private static func requeueAll(_ step: borrowing Step) throws -> [Done] {
        let states: [HandlerStatus.State] = [.parked, .quarantined]
        let unfinished = try states.flatMap { try step.handlers(in: $0, limit: .max) }
        try step.requeueAll()
        return try unfinished.map { try requeued($0.id, $0.name, step) }
    }

    private static func requeued(_ id: AnyHandlerID, _ name: String, _ step: borrowing Step) throws -> Done {
        let isCalled = try step.status(of: id)?.dueAt != nil
        return Done(
            action: "requeue", row: id.rawValue, handler: name,
            effect: isCalled
                ? "requeued, the program's runner calls it" : "requeued, it waits to be called again")
    }

    private static func invalidate(_ id: AnyHandlerID, _ step: borrowing Step) throws -> Done {
        let name = try name(of: id, step)
        try release(id, step)
        let disposition = try step.invalidate(id, reason: .discarded)
        guard case .ended = disposition else {
            throw CommandFailure(
                "the invalidation of the handler \(id) cannot run here (\(Self.sentence(disposition))); let the program that knows it invalidate it, or discard it. Nothing was changed"
            )
        }
        return Done(
            action: "invalidate", row: id.rawValue, handler: name,
            effect: "invalidated, what was bound for that case ran")
    }

    /// Deletes the account's rows for a handler: the request whose answer it awaits, and its listeners. A stanza is still sent and
    /// counted, and no handler is called for it.
    private static func release(_ id: AnyHandlerID, _ step: borrowing Step) throws {
        for table in ["request", "listener", "omemo_listener"] where try step.hasTable(table) {
            try step.execute("DELETE FROM \(table) WHERE handler = ?", id)
        }
        for table in ["outbox", "omemo_waiting"] where try step.hasTable(table) {
            try step.execute("UPDATE \(table) SET handler = NULL WHERE handler = ?", id)
        }
    }

    private static func sentence(_ disposition: Disposition) -> String {
        switch disposition {
        case .ended: "it ended"
        case .queued: "only a program's runner calls it"
        default: disposition.reason ?? ""
        }
    }

    /// Returns the stored name of a handler.
    ///
    /// - Throws: ``CommandFailure`` for a missing row.
    private static func name(of id: AnyHandlerID, _ step: borrowing Step) throws -> String {
        guard let name = try step.status(of: id)?.name else {
            throw CommandFailure("the handler \(id) has ended or never existed. Nothing was changed")
        }
        return name
    }
}
