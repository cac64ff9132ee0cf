import Foundation
import Handlers
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// An independent client in rooms.
final class RoomsPeer: Sendable {
    private let peer: SlixmppPeer
    let user: String

    init(_ home: RealHome, user: String) throws {
        self.user = user
        try home.server.addAccount(user, password: RealHome.password)
        peer = try SlixmppPeer(
            script: PackageResources.rooms_peer_py, folder: "\(home.folder.path)/\(user)",
            jid: "\(user)@\(RealServers.domain)/peer", password: RealHome.password,
            port: home.server.startTLSPort, trustFile: home.certificates.authorityFile)
        try peer.start()
    }

    func close() { peer.close() }

    var jid: JID { get throws { try JID(local: user, domain: RealServers.domain) } }

    private struct Answer: Decodable {
        var failed: String?
        var result: [String]?
    }

    /// Why the peer could not do it.
    struct Failure: Error, Equatable { let reason: String }

    /// Tells the peer to do something, and waits until it has.
    @discardableResult
    func tell(_ what: String, _ values: [String: any Sendable]) async throws -> [String] {
        var order = values
        order["do"] = what
        let line = String(
            decoding: try JSONSerialization.data(withJSONObject: order, options: [.sortedKeys]),
            as: UTF8.self)
        let peer = peer
        let text = try await onThread { try peer.ask(line, answer: "done ") }
        let answer = try JSONDecoder().decode(Answer.self, from: Data(text.utf8))
        if let reason = answer.failed { throw Failure(reason: reason) }
        return answer.result ?? []
    }

    func join(_ room: JID, as nick: String) async throws {
        try await tell("join", ["room": room.description, "nick": nick])
    }

    func say(_ body: String, id: String, in room: JID) async throws {
        try await tell(
            "say", ["to": room.description, "type": "groupchat", "id": id, "body": body])
    }

    /// What it saw of a kind, in order.
    func saw(_ kind: String) throws -> [PeerRecord] { try peer.log().filter { $0.kind.name == kind } }

    /// The bodies of the messages that others sent to a room.
    func heard(from nick: String) throws -> [String] {
        try saw("received").filter { $0.from?.hasSuffix("/\(nick)") == true }.map { $0.body ?? "" }
    }
}

extension RealHome {
    /// A room that no other test uses.
    func freshRoom() throws -> JID {
        try JID(local: "room-\(jid.local ?? "")", domain: "conference.\(RealServers.domain)")
    }

    func roomsPeer(_ name: String = "romeo") async throws -> RoomsPeer {
        try await onThread { try RoomsPeer(self, user: "\(name)-\(self.jid.local ?? "")") }
    }

    /// An account that is connected and has rooms.
    func withRooms(port: UInt16? = nil) async throws -> Account {
        let account = try account(port: port) { $0.modules = .standard }
        try await account.connect()
        try await account.listen()
        return account
    }

    /// The next process cannot resume the session, as if the server had forgotten it.
    func forgetSession() throws {
        try store.change("UPDATE session SET resumption_id = NULL")
    }
}
