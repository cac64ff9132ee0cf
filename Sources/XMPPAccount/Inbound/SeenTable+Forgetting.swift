import Handlers
import XMPPCore

// Marks are kept for as long as a copy may come, and then go, a piece at a time:
//
//     caught up ──▶ a day since the last time? ──▶ the old marks of each sender, 1000 in a step ──▶ noted; again in a day
//
// A copy of an old message can come for two reasons. The session broke before the server learned that the message was
// handled, and nobody connected since: the server sends it again as soon as somebody does, before it answers `<r/>`. Or
// an archive or a room is asked from the last message on, which in a quiet one is old: modules name those marks, and they stay.
extension SeenTable {
    /// The interval of forgetting marks.
    static let forgetsEvery = Duration.seconds(86_400)

    /// The number of marks that one step removes, or of senders that it checks.
    private static let piece = 1000

    /// The progress of a pass over the marks, and the marks to remove.
    struct Walk {
        /// Marks from this time on stay.
        fileprivate let limit: Timestamp
        /// From when on the marks of single senders stay, by the digest of the sender's address.
        fileprivate let senders: [[UInt8]: Timestamp]
        /// The sender that was looked at last.
        fileprivate var last: Int64 = 0

        /// Begins to look through the marks.
        ///
        /// - Parameters:
        ///   - age: How old a mark must be to go.
        ///   - needed: What the modules need.
        ///   - now: The time.
        init(age: Duration, needed: NeededMarks, now: Timestamp) {
            limit = needed.since.map { min(now - age, $0) } ?? now - age
            let times = needed.senders.map { (SeenSenders.digest(of: $0.description), $1) }
            senders = Dictionary(times, uniquingKeysWith: min)
        }

        fileprivate func limit(of sender: [UInt8]) -> Timestamp {
            senders[sender].map { min(limit, $0) } ?? limit
        }
    }

    /// Returns the time until marks are looked through again; 0 or less if that is due.
    func timeUntilForgetting(in step: borrowing Step) throws(HandlerError) -> Duration {
        let forgotAt =
            try step.first("SELECT forgot_at FROM account WHERE id = ?", account) {
                $0.timestamp(0)
            } ?? Timestamp(milliseconds: 0)
        // A clock that was set back does not put it off for longer than usual.
        return Self.forgetsEvery - max(.zero, step.now - forgotAt)
    }

    /// Removes the next marks that may go.
    ///
    /// - Returns: Whether there are more.
    func forget(_ walk: inout Walk, in step: borrowing Step) throws(HandlerError) -> Bool {
        let senders = try step.all(
            "SELECT id, digest, marks FROM seen_sender WHERE account = ? AND id > ? ORDER BY id LIMIT ?",
            account, walk.last, Self.piece
        ) { (id: $0.integer(0), digest: $0.blob(1), marks: $0.quantity(2)) }
        var room = Self.piece
        for sender in senders {
            let count = try forget(sender.id, before: walk.limit(of: sender.digest), limit: room, in: step)
            if count > 0 || sender.marks <= 0 {
                try reduce(sender.id, to: sender.marks - Int64(count), in: step)
            }
            room -= count
            // There may be more of this one.
            if room == 0 { return true }
            walk.last = sender.id
        }
        if senders.count == Self.piece { return true }
        try step.write("UPDATE account SET forgot_at = ? WHERE id = ?", step.now, account)
        return false
    }

    /// Removes the marks of a session, also those of a lost one, -1; those of deferred messages stay.
    private func forget(
        _ sender: Int64, before time: Timestamp, limit: Int, in step: borrowing Step
    ) throws(HandlerError) -> Int {
        try step.execute(
            """
            DELETE FROM seen_mark WHERE sender = ?1 AND (at, mark) IN (
                SELECT at, mark FROM seen_mark WHERE sender = ?1 AND at < ?2 AND coalesce(number, -1) < 0
                ORDER BY at, mark LIMIT ?3)
            """, sender, time, limit)
    }

    private func reduce(_ sender: Int64, to marks: Int64, in step: borrowing Step) throws(HandlerError) {
        if marks > 0 {
            try step.write("UPDATE seen_sender SET marks = ? WHERE id = ?", marks, sender)
        } else {
            try senders.remove(sender, in: step)
        }
    }
}

// Stores of older versions have marks that hold the ids themselves. They are recognized there, and are moved a piece at a
// time, each piece in a step of its own: a process that is killed in between has moved what it has moved.
extension SeenTable {
    /// The number of marks that one step moves.
    private static let movedMarks = 500
    /// After how many bytes of ids a step moves no more: one may hold a megabyte.
    private static let movedBytes = 1 << 20

    /// Moves some marks into the form of today.
    ///
    /// - Returns: Whether there are more.
    func move(in step: borrowing Step) throws(HandlerError) -> Bool {
        var (count, bytes) = (0, 0)
        while count < Self.movedMarks, bytes < Self.movedBytes {
            guard let size = try moveOne(in: step) else { return false }
            count += 1
            bytes += size
        }
        return true
    }

    /// - Returns: The size of its id in bytes; nil when there is none.
    private func moveOne(in step: borrowing Step) throws(HandlerError) -> Int? {
        let old = try step.first(
            "SELECT peer, stanza_id, digest, seen_at, number FROM seen WHERE account = ? LIMIT 1", account
        ) { row in
            (
                peer: row.text(0), id: row.text(1), digest: row.integer(2), at: row.timestamp(3),
                number: row.optionalInteger(4)
            )
        }
        guard let old else { return nil }
        try step.write(
            "DELETE FROM seen WHERE account = ? AND peer = ? AND stanza_id = ? AND digest = ?", account,
            old.peer, old.id, old.digest)
        let isSent = old.digest == 0 && old.id.utf8.starts(with: Mark.sent.utf8)
        // What cannot be read any more cannot come again either.
        if let peer = try? JID(received: old.peer) {
            var sender = try senders.sender(isSent ? nil : peer.bare, in: step)
            let mark = Mark.bytes(peer: old.peer, id: ForeignText(old.id), digest: old.digest)
            let isMoved =
                try step.execute(
                    """
                    INSERT INTO seen_mark(sender, at, mark, account, number) VALUES (?, ?, ?, ?, ?)
                    ON CONFLICT DO NOTHING
                    """,
                    sender.id, old.at, mark, account, old.number) == 1
            if isMoved { sender.recorded(at: old.at) }
            try senders.store(sender, limit: isSent ? SeenSenders.marksSent : SeenSenders.marksEach, in: step)
        }
        return old.id.utf8.count
    }
}
