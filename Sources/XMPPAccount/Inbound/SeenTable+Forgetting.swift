import Handlers

// Marks are kept for as long as a copy may come, and then go, a piece at a time:
//
//     caught up ──▶ a day since the last time? ──▶ the marks, 1000 in a step ──▶ noted; again in a day
//
// A copy of an old message can come for two reasons. The session broke before the server learned that the message was
// handled, and nobody connected since: the server sends it again as soon as somebody does, before it answers `<r/>`. Or
// an archive or a room is asked from the last message on, which in a quiet one is old: those marks stay.
extension SeenTable {
    /// How often marks are looked through, in milliseconds.
    static let forgetsEvery: Int64 = 86_400_000

    /// How many marks one step looks at.
    private static let piece = 1000

    /// How far a look through the marks has come, and which may go.
    struct Walk {
        /// Marks from this time on stay, in milliseconds since 1970.
        fileprivate let limit: Int64
        /// From when on the marks of a room stay, by its address.
        fileprivate let rooms: [String: Int64]
        /// The mark that was looked at last.
        fileprivate var last = Mark(peer: "", id: "", digest: .min)
    }

    fileprivate struct Mark {
        var peer: String
        var id: String
        var digest: Int64
    }

    /// When marks are to be looked through again, in milliseconds from now; 0 or less when they are now.
    func timeUntilForgetting(in step: borrowing Step) throws(HandlerError) -> Int64 {
        let forgotAt =
            try step.first("SELECT forgot_at FROM account WHERE id = ?", account) {
                (row) throws(HandlerError) in row.quantity(0)
            } ?? 0
        // A clock that was set back does not put it off for longer than usual.
        return min(forgotAt - step.now, 0) + Self.forgetsEvery
    }

    /// Begins to look through the marks.
    ///
    /// - Parameters:
    ///   - age: How old a mark must be to go, in milliseconds.
    ///   - archived: When the last message of the account's archive was sent; nil when there is no archive.
    func beginForgetting(age: Int64, archived: Int64?, in step: borrowing Step) throws(HandlerError) -> Walk {
        let rooms = try RoomTable(account: account).lastTimes(in: step)
        let overlap = 2 * Room.overlap
        return Walk(
            limit: min(step.now - age, (archived ?? .max) - overlap), rooms: rooms.mapValues { $0 - overlap })
    }

    /// Looks at the next marks and removes those that may go.
    ///
    /// - Returns: Whether there are more.
    func forget(_ walk: inout Walk, in step: borrowing Step) throws(HandlerError) -> Bool {
        // Read whole before anything is removed: a cursor on a table that changes may miss rows.
        let marks = try step.all(
            """
            SELECT peer, stanza_id, digest, seen_at < ? AND number IS NULL, seen_at FROM seen
            WHERE account = ? AND (peer, stanza_id, digest) > (?, ?, ?)
            ORDER BY peer, stanza_id, digest LIMIT ?
            """, walk.limit, account, walk.last.peer, walk.last.id, walk.last.digest, Self.piece
        ) { (row) throws(HandlerError) in
            (
                Mark(peer: row.text(0), id: row.text(1), digest: row.integer(2)), row.integer(3) != 0,
                row.quantity(4)
            )
        }
        for (mark, isOld, seenAt) in marks where isOld && !walk.keeps(mark.peer, seenAt) {
            try step.execute(
                "DELETE FROM seen WHERE account = ? AND peer = ? AND stanza_id = ? AND digest = ?", account,
                mark.peer, mark.id, mark.digest)
        }
        guard let last = marks.last, marks.count == Self.piece else {
            try step.execute("UPDATE account SET forgot_at = ? WHERE id = ?", step.now, account)
            return false
        }
        walk.last = last.0
        return true
    }
}

extension SeenTable.Walk {
    /// Whether it may be the last message of a room, which the room sends again when it is joined.
    fileprivate func keeps(_ peer: String, _ seenAt: Int64) -> Bool {
        guard !rooms.isEmpty else { return false }
        let room = peer.prefix { $0 != "/" }
        return rooms[String(room)].map { seenAt >= $0 } ?? false
    }
}
