import Handlers

/// The published own keys, for each version.
struct OmemoPublicationTable {
    let account: Int64

    struct State: Hashable {
        /// Counts the changes of the own keys.
        var revision: Int64
        /// The revision that the server has; 0 for none.
        var published: Int64
        /// The revision under way.
        var sending: Int64?
        /// Whether the own device was ever announced.
        var isListed: Bool
        /// Whether a list is under way.
        var isListSending: Bool
        /// When the count of announcements started, and the count.
        var announcedAt: Timestamp
        var announcements: Int64
        /// Whether it failed: it is not tried again before the next start.
        var hasFailed: Bool
    }

    func state(_ version: OmemoVersion, in step: borrowing Step) throws(HandlerError) -> State? {
        try step.first(
            """
            SELECT revision, published, sending, listed, list_sending, announced_at, announcements,
                failure IS NOT NULL
            FROM omemo_publication WHERE account = ? AND namespace = ?
            """, account, version.namespace
        ) { row in
            State(
                revision: row.quantity(0), published: row.quantity(1), sending: row.optionalQuantity(2),
                isListed: row.integer(3) != 0, isListSending: row.integer(4) != 0,
                announcedAt: row.timestamp(5), announcements: row.quantity(6), hasFailed: row.integer(7) != 0)
        }
    }

    func set(_ state: State, _ version: OmemoVersion, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            """
            UPDATE omemo_publication SET revision = ?, published = ?, sending = ?, listed = ?, list_sending = ?,
                announced_at = ?, announcements = ?, failure = CASE WHEN ? THEN failure END
            WHERE account = ? AND namespace = ?
            """, state.revision, state.published, state.sending, state.isListed, state.isListSending,
            state.announcedAt, state.announcements, state.hasFailed, account, version.namespace)
    }

    func change(
        _ version: OmemoVersion, in step: borrowing Step, _ body: (inout State) -> Void
    ) throws(HandlerError) {
        guard var state = try state(version, in: step) else { return }
        body(&state)
        try set(state, version, in: step)
    }

    /// Notes that the own keys have changed.
    func raiseRevision(in step: borrowing Step) throws(HandlerError) {
        try step.write("UPDATE omemo_publication SET revision = revision + 1 WHERE account = ?", account)
    }

    /// Notes why publishing is not going on.
    func record(_ failure: String, _ version: OmemoVersion, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE omemo_publication SET failure = ? WHERE account = ? AND namespace = ?", failure, account,
            version.namespace)
    }

    func failure(_ version: OmemoVersion, in source: borrowing some Readable) throws(HandlerError) -> String?
    {
        try source.first(
            "SELECT failure FROM omemo_publication WHERE account = ? AND namespace = ?", account,
            version.namespace
        ) { $0.optionalText(0) } ?? nil
    }
}
