import AccountTestSupport
import TestSupport
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers

/// An independent client in rooms; see rooms_peer.py.
extension SlixmppPeer {
    func join(_ room: JID, as nick: String) throws { try tell("join", ["room": room, "nick": nick]) }

    func say(_ body: String, id: String, in room: JID) throws {
        try tell("say", ["to": room, "type": "groupchat", "id": id, "body": body])
    }

    /// The bodies of the messages that others sent to a room.
    func heard(from nick: String) throws -> [String] {
        try records(.received).filter { $0.from?.hasSuffix("/\(nick)") == true }.map { $0.body ?? "" }
    }
}

extension RealHome {
    /// A room that no other test uses.
    func freshRoom() throws -> JID {
        try JID(local: "room-\(jid.local ?? "")", domain: "conference.\(RealServers.domain)")
    }

    func roomsPeer(_ name: String = "romeo") throws -> SlixmppPeer {
        let user = try scene.addUser("\(name)-\(jid.local ?? "")")
        return try scene.peer(PackageResources.rooms_peer_py, as: user)
    }

    /// An account that is connected and has rooms, and that the server knows to be available.
    func withRooms(port: UInt16? = nil) async throws -> Account {
        let account = try account(port: port) { $0.modules = .standard }
        try await account.connect()
        try await account.listen()
        // The server takes stanzas one after another, and sends invitations to available resources only.
        _ = try await account.ping(nil)
        return account
    }

    /// The next process cannot resume the session, as if the server had forgotten it.
    func forgetSession() throws {
        try store.change("UPDATE session SET resumption_id = NULL")
    }
}
