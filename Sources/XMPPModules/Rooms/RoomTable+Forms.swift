import Handlers
import XMPPCore

// Rooms that the program has asked for under another form of their address than the one of their service.
extension RoomTable {
    /// The rooms that the account has asked to let it in, and of which that address may be a form.
    func joining(formOf jid: JID, in step: borrowing Step) throws -> [Room] {
        try step.all(Self.select("state = 'joining'"), account, read: Stored.init).map { try $0.room }
            .filter { $0.jid != jid && $0.jid.isForm(of: jid) }
    }

    /// Gives a room that is being joined the address that its service has for it.
    ///
    /// - Returns: False when the account is in a room of that address, or wants to be.
    func rename(_ room: JID, to name: JID, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.write(
            "DELETE FROM room WHERE account = ? AND jid = ? AND state = 'left'", account, name.description)
        let isRenamed =
            try step.execute(
                """
                UPDATE room SET jid = ?3, asked_jid = coalesce(asked_jid, jid) WHERE account = ?1 AND jid = ?2
                    AND NOT EXISTS (SELECT 1 FROM room AS other WHERE other.account = ?1 AND other.jid = ?3)
                """, account, room.description, name.description) == 1
        guard isRenamed else { return false }
        for table in ["room_message", "occupant"] {
            try step.write(
                "UPDATE \(table) SET room = ? WHERE account = ? AND room = ?", name.description, account,
                room.description)
        }
        return true
    }
}
