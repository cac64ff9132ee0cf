import Handlers
import XMPPAccount
import XMPPCore

// Who is in a room, who invites into one, and what was said there and has not come back.
extension RoomTable {
    // MARK: Occupants

    func occupants(of room: JID, in source: borrowing some Readable) throws(HandlerError) -> [RoomOccupant] {
        try source.all(
            "SELECT nick, jid, affiliation, role FROM occupant WHERE account = ? AND room = ? ORDER BY nick",
            account, room.description, read: Self.readOccupant)
    }

    func occupant(_ nick: ForeignText, of room: JID, in step: borrowing Step) throws(HandlerError)
        -> RoomOccupant?
    {
        try step.first(
            "SELECT nick, jid, affiliation, role FROM occupant WHERE account = ? AND room = ? AND nick = ?",
            account, room.description, nick, read: Self.readOccupant)
    }

    private static func readOccupant(_ row: borrowing Row) throws(HandlerError) -> RoomOccupant {
        RoomOccupant(
            nick: row.foreignText(0), jid: row.optionalText(1).flatMap { try? JID(received: $0) },
            affiliation: RoomAffiliation(rawValue: row.text(2)) ?? .none,
            role: RoomRole(rawValue: row.text(3)) ?? .none)
    }

    /// The maximum number of stored occupants of one room: a room can send any number.
    static let occupantLimit = 5000

    /// - Returns: False when there are too many, or address and nickname are too long for a key; nothing was changed then.
    @discardableResult
    func set(_ occupant: RoomOccupant, of room: JID, in step: borrowing Step) throws(HandlerError) -> Bool {
        guard ForeignBounds.fitKey(room, occupant.nick) else { return false }
        return try step.execute(
            """
            INSERT INTO occupant(account, room, nick, jid, affiliation, role) SELECT ?1, ?2, ?3, ?4, ?5, ?6
            WHERE EXISTS (SELECT 1 FROM occupant WHERE account = ?1 AND room = ?2 AND nick = ?3)
                OR (SELECT count(*) FROM (SELECT 1 FROM occupant WHERE account = ?1 AND room = ?2 LIMIT ?7) AS kept)
                    < ?7
            ON CONFLICT(account, room, nick) DO UPDATE SET
                jid = excluded.jid, affiliation = excluded.affiliation, role = excluded.role
            """, account, room.description, occupant.nick, occupant.jid?.description,
            occupant.affiliation.rawValue, occupant.role.rawValue, Self.occupantLimit) > 0
    }

    func rename(_ nick: ForeignText, to newNick: ForeignText, of room: JID, in step: borrowing Step)
        throws(HandlerError)
    {
        guard nick != newNick else { return }
        guard ForeignBounds.fitKey(room, newNick) else {
            try remove(nick, of: room, in: step)
            return
        }
        // The occupant that had the new nick is gone, although the room did not report it.
        try step.write(
            """
            DELETE FROM occupant WHERE account = ?1 AND room = ?2 AND nick = ?3
                AND EXISTS (SELECT 1 FROM occupant WHERE account = ?1 AND room = ?2 AND nick = ?4)
            """, account, room.description, newNick, nick)
        try step.write(
            "UPDATE occupant SET nick = ? WHERE account = ? AND room = ? AND nick = ?", newNick, account,
            room.description, nick)
    }

    /// - Returns: Whether the occupant was known.
    @discardableResult
    func remove(_ nick: ForeignText, of room: JID, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.execute(
            "DELETE FROM occupant WHERE account = ? AND room = ? AND nick = ?", account, room.description,
            nick) == 1
    }

    func removeOccupants(of room: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM occupant WHERE account = ? AND room = ?", account, room.description)
    }

    // MARK: Invitations

    /// The maximum number of stored invitations; the oldest are removed first, as any user may send them. Each has some
    /// kilobytes at most, see ``RoomInvitation/bounded``.
    static let invitationLimit = 100

    func add(_ invitation: RoomInvitation, in step: borrowing Step) throws(HandlerError) {
        // Invitations of one step have one time; a millisecond each keeps them in the order of their arrival.
        let newest = try step.first(
            "SELECT max(received_at) FROM room_invitation WHERE account = ? AND received_at < ?", account,
            invitation.receivedAt + .seconds(1)
        ) { $0.optionalTimestamp(0) }
        let receivedAt = max(
            invitation.receivedAt,
            newest.flatMap { $0.map { $0 + .milliseconds(1) } } ?? invitation.receivedAt)
        try step.write(
            """
            INSERT INTO room_invitation(account, room, by, reason, password, thread, direct, received_at)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT(account, room) DO UPDATE SET by = excluded.by, reason = excluded.reason,
                password = excluded.password, thread = excluded.thread, direct = excluded.direct,
                received_at = excluded.received_at
            """, account, invitation.room.description, invitation.by?.description, invitation.reason,
            invitation.password, invitation.thread, invitation.isDirect, receivedAt)
        try step.write(
            """
            DELETE FROM room_invitation WHERE account = ?1 AND room IN (
                SELECT room FROM room_invitation WHERE account = ?1 ORDER BY received_at, room
                LIMIT (SELECT CASE WHEN count(*) > ?2 THEN count(*) - ?2 ELSE 0 END FROM room_invitation
                    WHERE account = ?1))
            """, account, Self.invitationLimit)
    }

    private static let invitationColumns = "room, by, reason, password, thread, direct, received_at"

    func invitations(in source: borrowing some Readable) throws -> [RoomInvitation] {
        try source.all(
            "SELECT \(Self.invitationColumns) FROM room_invitation WHERE account = ? ORDER BY received_at, room",
            account, read: StoredInvitation.init
        ).map { try $0.invitation }
    }

    func invitation(into room: JID, in step: borrowing Step) throws -> RoomInvitation? {
        try step.first(
            "SELECT \(Self.invitationColumns) FROM room_invitation WHERE account = ? AND room = ?", account,
            room.description, read: StoredInvitation.init)?.invitation
    }

    /// A row before its addresses are read.
    private struct StoredInvitation {
        let room: String
        let by: String?
        let reason, password, thread: ForeignText?
        let isDirect: Bool
        let receivedAt: Timestamp

        init(_ row: borrowing Row) throws(HandlerError) {
            (room, by, reason) = (row.text(0), row.optionalText(1), row.optionalForeignText(2))
            (password, thread) = (row.optionalForeignText(3), row.optionalForeignText(4))
            (isDirect, receivedAt) = (row.integer(5) != 0, row.timestamp(6))
        }

        var invitation: RoomInvitation {
            get throws {
                RoomInvitation(
                    room: try JID(received: room), by: by.flatMap { try? JID(received: $0) }, reason: reason,
                    password: password,
                    thread: thread, isDirect: isDirect, receivedAt: receivedAt)
            }
        }
    }

    /// - Returns: Whether there was one.
    @discardableResult
    func removeInvitation(into room: JID, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.execute(
            "DELETE FROM room_invitation WHERE account = ? AND room = ?", account, room.description) == 1
    }

    // MARK: Messages on their way

    /// A message that a room has not sent back.
    struct Unconfirmed {
        let row: Int64
        let id: ForeignText
        let xml: [UInt8]
        let tries: Int64
        /// In which stay it was sent last; nil when it was not sent yet.
        let ticket: String?
    }

    func add(_ message: Element, id: ForeignText, to room: JID, in step: borrowing Step) throws(HandlerError)
    {
        try step.write(
            "INSERT INTO room_message(account, room, stanza_id, xml) VALUES (?, ?, ?, ?)", account,
            room.description, id, Serializer().bytes(message))
    }

    /// Returns whether fewer than `limit` messages wait in all rooms.
    func hasRoom(_ limit: Int, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.holdsFewer(than: limit, in: NumberedRows("row", of: "room_message"), of: account)
    }

    /// Returns whether a message was not sent in this stay.
    ///
    /// - Parameter before: Whether it must have been sent in an earlier one.
    func hasUnsent(in stay: String, to room: JID, before: Bool = false, in step: borrowing Step)
        throws(HandlerError) -> Bool
    {
        try step.exists(
            """
            SELECT 1 FROM room_message WHERE account = ? AND room = ? AND ticket IS DISTINCT FROM ?
            AND (ticket IS NOT NULL OR ? = 0) LIMIT 1
            """, account, room.description, stay, before)
    }

    /// The messages that were not sent in this stay, in order.
    func unsent(in stay: String, to room: JID, limit: Int = .max, in step: borrowing Step)
        throws(HandlerError) -> [Unconfirmed]
    {
        try step.all(
            """
            SELECT row, stanza_id, xml, tries, ticket FROM room_message
            WHERE account = ? AND room = ? AND ticket IS DISTINCT FROM ? ORDER BY row LIMIT ?
            """, account, room.description, stay, limit
        ) { row in
            Unconfirmed(
                row: row.integer(0), id: row.foreignText(1), xml: row.blob(2), tries: row.quantity(3),
                ticket: row.optionalText(4))
        }
    }

    func recordSent(_ message: Unconfirmed, in stay: String, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "UPDATE room_message SET ticket = ?, tries = tries + 1 WHERE row = ?", stay, message.row)
    }

    func isUnconfirmed(_ id: ForeignText, to room: JID, in step: borrowing Step) throws(HandlerError) -> Bool
    {
        try step.exists(
            "SELECT 1 FROM room_message WHERE account = ? AND room = ? AND stanza_id = ?", account,
            room.description, id)
    }

    /// The room has sent it back, or never will.
    func confirm(_ id: ForeignText, to room: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "DELETE FROM room_message WHERE account = ? AND room = ? AND stanza_id = ?", account,
            room.description, id)
    }

    func removeMessages(to room: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM room_message WHERE account = ? AND room = ?", account, room.description)
    }

    // MARK: The watch

    func watch(in step: borrowing Step) throws(HandlerError) -> (
        handler: HandlerID<Invalidation>, due: Int64
    )? {
        try step.first("SELECT handler, due FROM room_watch WHERE account = ?", account) {
            (HandlerID(rawValue: $0.integer(0)), $0.integer(1))
        }
    }

    func set(watch handler: HandlerID<Invalidation>, due: Int64, in step: borrowing Step) throws(HandlerError)
    {
        try step.write(
            """
            INSERT INTO room_watch(account, handler, due) VALUES (?, ?, ?)
            ON CONFLICT(account) DO UPDATE SET handler = excluded.handler, due = excluded.due
            """, account, handler, due)
    }

    func removeWatch(in step: borrowing Step) throws(HandlerError) {
        try step.write("DELETE FROM room_watch WHERE account = ?", account)
    }
}
