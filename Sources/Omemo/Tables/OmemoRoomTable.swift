import Handlers
import XMPPCore

/// The occupants of rooms.
struct OmemoRoomTable {
    let account: Int64

    func members(of room: JID, in step: borrowing Step) throws(HandlerError) -> [JID] {
        try step.all(
            "SELECT jid FROM omemo_room_member WHERE account = ? AND room = ? ORDER BY jid", account,
            room.bare.description
        ) { try? JID(received: $0.text(0)) }.compactMap(\.self)
    }

    func member(named nick: ForeignText, in room: JID, in step: borrowing Step) throws(HandlerError) -> JID? {
        try step.first(
            "SELECT jid FROM omemo_room_member WHERE account = ? AND room = ? AND nick = ?", account,
            room.bare.description, nick
        ) { try? JID(received: $0.text(0)) } ?? nil
    }

    func set(_ members: [JID: ForeignText?], of room: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "DELETE FROM omemo_room_member WHERE account = ? AND room = ?", account, room.bare.description)
        // Several clients of a user are one member.
        let users = Dictionary(members.map { ($0.bare, $1) }) { $1 ?? $0 }
        for (jid, nick) in users {
            try step.write(
                "INSERT INTO omemo_room_member(account, room, jid, nick) VALUES (?, ?, ?, ?)", account,
                room.bare.description, jid.description, nick)
        }
    }
}
