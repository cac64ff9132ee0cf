import Handlers
import XMPPCore
import XMPPTransport

/// To whom the marks of handled messages are counted, and how many are kept.
///
/// Anybody can make marks. So each bare address has its own, the occupants of a room have those of the room, and a flood
/// pushes out the oldest marks of the address that floods. Only two bounds reach beyond one address: of too many addresses
/// the one that was silent longest goes, and of too many marks the oldest of the address that has the most.
struct SeenSenders {
    let account: Int64
    /// The marks that the modules need.
    let needed: (borrowing Step) throws(HandlerError) -> NeededMarks

    /// The maximum number of marks of one address, and up to ``piece`` more: three for a message at most.
    static let marksEach = 10_000
    /// The maximum number of marks of sent messages, and up to ``piece`` more: ten times what the outbox holds
    /// by default.
    static let marksSent = 1_000_000
    /// The maximum number of addresses, and up to ``piece`` more.
    static let limit = 5000
    /// The maximum number of marks of all addresses together. They are counted once in ``piece`` marks of an address.
    static let marks = 500_000
    /// A bound that reaches beyond one address is checked once in so many marks or addresses, and marks are dropped so many at
    /// a time: to find the oldest costs as much as to note some.
    static let piece = 64

    struct Sender {
        let id: Int64
        /// The number of marks.
        private(set) var marks: Int
        /// The time of the newest.
        private(set) var newest: Timestamp
        /// The number of marks when the row was read.
        fileprivate let marksBefore: Int
        /// The stored hour of its newest mark, counted from 1970.
        fileprivate let heard: Int64

        fileprivate init(_ row: borrowing Row) {
            self.init(
                id: row.integer(0), marks: Int(row.quantity(1)), newest: row.timestamp(2),
                heard: row.quantity(3))
        }

        fileprivate init(id: Int64, marks: Int, newest: Timestamp, heard: Int64) {
            (self.id, self.marks, self.newest) = (id, marks, newest)
            (marksBefore, self.heard) = (marks, heard)
        }

        /// The hour of its newest mark, counted from 1970.
        fileprivate var hour: Int64 { newest.milliseconds / SeenSenders.millisecondsInHour }

        /// The time of its next mark, after all others: neither several in one step nor a clock that was set back change the
        /// order.
        func time(_ now: Timestamp) -> Timestamp {
            max(now, Timestamp(milliseconds: newest.milliseconds + 1))
        }

        mutating func recorded(at time: Timestamp) {
            newest = max(newest, time)
            marks += 1
        }

        fileprivate mutating func dropped(_ count: Int) { marks -= count }

        fileprivate mutating func recounted(_ count: Int) { marks = count }
    }

    /// 16 bytes of SHA-256.
    static func digest(_ bytes: [UInt8]) -> [UInt8] { Array(Crypto.digest(.sha256, bytes).prefix(16)) }

    /// - Parameter address: A bare address; nil for what was sent from here.
    static func digest(of address: String?) -> [UInt8] { digest(Array((address ?? "").utf8)) }

    fileprivate static let millisecondsInHour: Int64 = 3_600_000

    /// The sender with an address, which is new if it has none.
    ///
    /// - Parameter address: A bare address; nil for what was sent from here.
    func sender(_ address: JID?, in step: borrowing Step) throws(HandlerError) -> Sender {
        let digest = Self.digest(of: address?.description)
        let known = try step.first(
            "SELECT id, marks, newest, heard FROM seen_sender WHERE account = ? AND digest = ?", account,
            digest, read: Sender.init)
        if let known { return known }
        let hour = step.now.milliseconds / Self.millisecondsInHour
        try step.write(
            "INSERT INTO seen_sender(account, digest, heard) VALUES (?, ?, ?)", account, digest, hour)
        let sender = Sender(
            id: try step.lastInsertedRow, marks: 0, newest: Timestamp(milliseconds: 0), heard: hour)
        if sender.id % Int64(Self.piece) == 0 { try dropSilent(in: step) }
        return sender
    }

    /// Stores what became of a sender that has new marks.
    ///
    /// - Parameter limit: How many of its marks are kept.
    func store(_ sender: Sender, limit: Int, in step: borrowing Step) throws(HandlerError) {
        guard sender.marks != sender.marksBefore else { return }
        var sender = sender
        if sender.marks - Self.piece > limit { try drop(sender.marks - limit, of: &sender, in: step) }
        try step.write(
            "UPDATE seen_sender SET marks = ?, newest = ? WHERE id = ?", sender.marks, sender.newest,
            sender.id)
        // Written once an hour: that column has an index.
        if sender.hour != sender.heard {
            try step.write("UPDATE seen_sender SET heard = ? WHERE id = ?", sender.hour, sender.id)
        }
        if sender.marks / Self.piece != sender.marksBefore / Self.piece { try dropMost(in: step) }
    }

    // MARK: Dropping

    /// Drops the oldest marks of a sender.
    ///
    /// - Parameter count: How many, 1 or more.
    private func drop(_ count: Int, of sender: inout Sender, in step: borrowing Step) throws(HandlerError) {
        let dropped = try step.execute(
            """
            DELETE FROM seen_mark WHERE sender = ?1 AND (at, mark) <=
                (SELECT at, mark FROM seen_mark WHERE sender = ?1 ORDER BY at, mark LIMIT 1 OFFSET ?2)
            """, sender.id, count - 1)
        guard dropped == 0 else { return sender.dropped(dropped) }
        // There are fewer than were counted, in a store that was altered.
        let marks = try step.first("SELECT count(*) FROM seen_mark WHERE sender = ?", sender.id) {
            Int($0.quantity(0))
        }
        sender.recounted(marks ?? 0)
    }

    /// Drops the senders beyond the limit that were silent longest, except those that a module needs: what a quiet room sends
    /// again when it is joined must be known.
    private func dropSilent(in step: borrowing Step) throws(HandlerError) {
        let count = try step.first("SELECT count(*) FROM seen_sender WHERE account = ?", account) {
            Int($0.integer(0))
        }
        let surplus = (count ?? 0) - Self.limit
        guard surplus > 0 else { return }
        var kept = Set(try needed(step).senders.keys.map { Self.digest(of: $0.description) })
        kept.insert(Self.digest(of: nil))
        let silent = try step.all(
            "SELECT id, digest FROM seen_sender WHERE account = ? ORDER BY heard, id LIMIT ?", account,
            surplus + kept.count
        ) { (id: $0.integer(0), digest: $0.blob(1)) }
        for sender in silent.filter({ !kept.contains($0.digest) }).prefix(surplus) {
            try remove(sender.id, in: step)
        }
    }

    func remove(_ sender: Int64, in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM seen_mark WHERE sender = ?", sender)
        try step.write("DELETE FROM seen_sender WHERE id = ?", sender)
    }

    /// Drops the oldest marks of the sender that has the most when all together have too many.
    private func dropMost(in step: borrowing Step) throws(HandlerError) {
        let sent = Self.digest(of: nil)
        let total = try step.first(
            """
            SELECT coalesce(sum(CAST(marks AS DOUBLE PRECISION)), 0) FROM seen_sender
            WHERE account = ? AND digest <> ?
            """, account, sent
        ) { Int($0.quantity(0)) }
        let surplus = (total ?? 0) - Self.marks
        guard surplus > 0 else { return }
        let largest = try step.first(
            """
            SELECT id, marks, newest, heard FROM seen_sender WHERE account = ? AND digest <> ?
            ORDER BY marks DESC LIMIT 1
            """, account, sent, read: Sender.init)
        guard var largest else { return }
        try drop(min(surplus, largest.marks), of: &largest, in: step)
        try step.write("UPDATE seen_sender SET marks = ? WHERE id = ?", largest.marks, largest.id)
    }
}
