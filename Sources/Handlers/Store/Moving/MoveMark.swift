/// The mark of a store that is moved to another database, in its row of `place`.
///
/// ```text
///   in use ── moving ── moved        the store that is left: from `moving` on no program opens it
///               │ undone
///               ╰──▶ in use
/// ```
/// The target gets the number of the move in the transaction that brings all rows. So a move that was interrupted finds there whether
/// it has arrived.
package struct MoveMark: Equatable, Sendable {
    /// The number of the move, random.
    package let move: String
    /// The name of the target.
    package let target: String
    /// Whether the target is known to have all rows.
    package let hasMoved: Bool

    /// The version of the runtime's tables from which on there is a mark.
    private static let firstVersion = 7

    package init(move: String, target: String, hasMoved: Bool) {
        (self.move, self.target, self.hasMoved) = (move, target, hasMoved)
    }

    /// Reads the mark of a store; nil for one that is in use.
    package static func find(in connection: any SQLConnection) throws(HandlerError) -> MoveMark? {
        try connection.firstOnce("SELECT move, moves_to, has_moved FROM place WHERE moves_to IS NOT NULL") {
            row in
            MoveMark(move: row.text(0), target: row.text(1), hasMoved: row.integer(2) != 0)
        }
    }

    /// Refuses a store that was moved, or is being moved.
    package static func refuse(in connection: any SQLConnection) throws(HandlerError) {
        if let mark = try find(in: connection) { throw mark.refusal(of: connection.path) }
    }

    /// The same for a database whose tables may be older, or missing.
    package static func refuseOld(in connection: any SQLConnection) throws(HandlerError) {
        guard try connection.hasTable("module_schema") else { return }
        if try Schema.runtime.version(in: connection) >= firstVersion { try refuse(in: connection) }
    }

    /// The most of a name that a message shows: what is stored may be altered.
    private static let longestName = 500

    package func refusal(of path: String) -> HandlerError {
        let name = target.prefix(Self.longestName)
        return HandlerError(
            .databaseMoved,
            hasMoved
                ? "the store \(path) was moved to \(name); open that one"
                : "the store \(path) is being moved to \(name), and the move has not ended; run it again, or undo it"
        )
    }

    /// Marks a store, or removes its mark.
    package static func set(_ mark: MoveMark?, in step: borrowing Step) throws(HandlerError) {
        try step.execute(
            "UPDATE place SET move = coalesce(?, move), moves_to = ?, has_moved = ?", mark?.move,
            mark?.target,
            mark?.hasMoved ?? false)
    }
}

extension Schema {
    /// The runtime's own tables.
    package static var runtime: Schema { handlers }
}

extension Step {
    /// Frees what processes held that have the store open no longer; for the last one that has it open.
    package func freeAll() throws(HandlerError) {
        try execute(
            "UPDATE handler SET state = \(Transaction.State.pending.sql), due = ?, lease = NULL WHERE \(Transaction.State.leased.condition)",
            now)
        try execute("DELETE FROM connected_slot")
    }
}
