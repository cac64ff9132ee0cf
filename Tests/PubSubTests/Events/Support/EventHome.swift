import Handlers
import PubSub
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers

/// An account of ours on a real server and a contact of it, a client that shares no code with us; see pep_peer.py.
final class EventHome: Sendable, TestResource {
    let jid: JID
    let juliet: JID
    private let scene: RealScene
    private let peer: SlixmppPeer

    init(_ kind: ServerKind) throws {
        scene = try RealScene(kind)
        jid = try scene.addUser()
        juliet = try scene.addUser()
        try scene.server.befriend(jid.local?.string ?? "", juliet.local?.string ?? "")
        peer = try scene.peer(PackageResources.pep_peer_py, as: juliet, resource: "balcony")
    }

    /// The account as another process would make it.
    func account(_ role: AccountRole = .main) throws -> Account {
        let store = try HandlerStore(
            path: scene.folder.path + "/store.db",
            registry: HandlerRegistry(PubSubService.handlers + EventApp.handlers),
            schemas: Account.schemas + PubSubEvents.schemas + [EventApp.schema],
            role: role == .worker ? .worker : .main)
        var configuration = scene.configuration(of: jid, .startTLS)
        configuration.role = role
        configuration.modules = .standard + [PubSubEvents()]
        return try scene.account(configuration, store: store)
    }

    /// Has the contact do something at a node, and waits until its server has answered.
    func tell(_ name: String, _ node: String, _ arguments: SlixmppPeer.Arguments = [:]) throws {
        try peer.tell(name, arguments.merging(["node": node]) { $1 })
    }

    /// Waits until the server knows what the account wants: it has asked what the account's presence stands for, and has the
    /// answer. What is published before is not sent.
    func settle(_ account: Account) async throws {
        for _ in 0..<2 { try await account.caughtUp() }
    }

    func publish(_ nick: String, id: String = "current") throws {
        try tell("publish", UserNick.node, ["id": id, "xml": UserNick(nick).element.serialized()])
    }

    /// The texts of the items that the contact saw on nodes of the account, or of a service.
    func seenByPeer(at service: JID? = nil) throws -> [String] {
        try peer.records("event").filter { $0.from == (service ?? jid).description }.compactMap(\.body)
    }

    func notes(_ account: Account) throws -> [String] {
        try account.store.step { try EventApp.notes(in: $0) }
    }

    /// Waits until something was noted.
    func waitForNotes(_ count: Int, _ account: Account) async throws {
        try await eventually("\(count) notes instead of \(try notes(account))") {
            try notes(account).count >= count
        }
    }

    func close() async { await scene.close() }
}

func withEventHome(_ kind: ServerKind, _ body: (EventHome) async throws -> Void) async throws {
    try await closing(EventHome(kind), after: body)
}
