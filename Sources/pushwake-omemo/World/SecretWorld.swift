import Handlers
import Omemo
import World
import XMPPAccount
import XMPPCore
import XMPPModules

/// OMEMO in a simulated world. The account and the peer have a device each, and half of their messages are encrypted.
///
/// ```text
///   account: processes that are killed ──▶ server: PubSub, witness of keys ──▶ peer: a store without faults
///                   └──────── messages read by the peer, messages stored by the application ────────┘ ──▶ model
/// ```
final class SecretWorld: WorldExtension {
    private unowned let world: SimulatedWorld
    private let peer: PeerAccount
    private var nodes: WorldNodes
    private var witness = KeyWitness()
    /// The encrypted messages of the peer.
    private var sent: [Element] = []
    private var lastEmpty = 0

    let schemas = OmemoService.schemas
    let handlers: [any DurableHandler.Type] = [SecretApp.Unsealed.self, SecretApp.Sealed.self]
    let endingHandlers = [SecretApp.Sealed.id]
    let countOfWaiting = "SELECT count(*) FROM omemo_waiting WHERE acknowledged IS NOT NULL"
    let modules: [any AccountModule] = [DiscoModule(), OmemoModule()]
    let namespaces: Set<String> = [Namespaces.pubsub, Namespaces.pubsubOwner]

    init(_ world: SimulatedWorld, seed: UInt64) throws {
        self.world = world
        // In a third of the worlds, each side hides its devices of the current version from the other, so that both use the legacy
        // version.
        nodes = WorldNodes(hidden: seed % 3 == 0 ? "urn:xmpp:omemo:2" : nil)
        peer = try PeerAccount(
            WorldServer.peer, modules: modules, handlers: [SecretApp.ReadByPeer.self], schemas: schemas,
            in: world)
        SecretApp.reportRead = { [unowned self] in read($0) }
        try peer.perform { step in
            try peer.account.omemo.listen(as: "peer", SecretApp.ReadByPeer().durable, in: step)
            try peer.account.omemo.start(in: step)
        }
        try carry()
    }

    /// Both sides have one device each, in two versions of the protocol. The account gets another device after each copy of its
    /// store.
    func limit(of table: String, bound: Int, messages: Int) -> Int? {
        switch table {
        case "omemo_waiting", "omemo_duty", "omemo_fetch": bound + messages + 20
        // With those that copies of the database have retired.
        case "omemo_prekey": 1400
        case "omemo_room_member": 0
        case _ where table.hasPrefix("omemo_"): 20
        case "pubsub_seen_item": 64
        default: nil
        }
    }

    func close() { SecretApp.reportRead = { _ in } }

    // MARK: The application

    func prepare(_ account: Account, isMain: Bool) async throws {
        try await account.omemo.listen(as: "world", SecretApp.Unsealed().durable)
        if isMain { try await account.omemo.start() }
    }

    func work(_ account: Account, in step: borrowing Step) throws -> Int {
        try SecretApp.send(from: account, in: step)
    }

    // MARK: The peer

    func message(_ number: Int) -> Element? {
        try? failing {
            let content = OmemoContent(body: String(number))
            let id = try peer.perform { step in
                try peer.account.omemo.send(content, to: WorldServer.account, in: step)
            }
            // Nil until the account has published its keys.
            guard var message = try carry(except: id) else { return nil }
            message["id"] = "p-\(number)"
            witness.seeOfPeer(message)
            sent.append(message)
            return message
        }
    }

    func isTooOld(_ id: String) -> Bool { witness.isTooOld(id) }

    func repetition(_ random: inout some RandomNumberGenerator) -> Element? {
        // Before its first arrival, a repetition would be the message itself.
        let known = sent.filter { world.model.isStored("\($0["id"] ?? "")") }
        guard var message = known.randomElement(using: &random) else { return nil }
        message["id"] = "r-\(message["id"] ?? "")"
        return message
    }

    /// Checks that the peer could read a message, and reports it to the model.
    private func read(_ received: OmemoReceived) {
        switch received.outcome {
        case .content(let content): world.model.peerRead("\(content.body ?? "")")
        case .failed(let error):
            world.model.fail("the peer cannot read \(received.message.id ?? ""): \(error)")
        }
    }

    /// Carries all stanzas of the peer to the server, and the answers back, until none is left.
    ///
    /// - Parameter id: The id of a message that is not sent.
    /// - Returns: That message, if the peer has sent it.
    @discardableResult
    private func carry(except id: String? = nil) throws -> Element? {
        var kept: Element?
        while true {
            let elements = try peer.takeSent()
            if elements.isEmpty { return kept }
            for var element in elements {
                element["from"] = WorldServer.peer.foreignText
                if let answer = nodes.answer(element, at: WorldServer.peer.bare) {
                    try peer.receive(answer)
                } else if element.name == "message" && element["id"] == id.map({ ForeignText($0) }) {
                    kept = element
                } else if element.name == "message" {
                    lastEmpty += 1
                    element["id"] = "e-\(lastEmpty)"
                    witness.seeOfPeer(element)
                    world.server.sendOfPeer(element)
                }
            }
        }
    }

    // MARK: The server

    func receive(_ element: Element, at jid: JID) -> Bool {
        if element.name == "iq", let answer = nodes.answer(element, at: jid.bare) {
            world.server.answer(answer, from: jid)
            if let event = nodes.nextEvent() { _ = try? failing { try peer.receive(event) } }
            return true
        }
        guard jid == WorldServer.peer, element.elements.contains(where: { $0.name == "encrypted" }) else {
            return false
        }
        // A store that has lost commits may encrypt again with keys that it has used before.
        if world.isFlipped { return true }
        switch witness.see(element) {
        case .fresh(let digest): world.note("secret \(element["id"] ?? "") \(digest)")
        case .wrong(let sentence): world.model.fail(sentence)
        }
        try? failing {
            try peer.receive(element)
            while try peer.perform({ try peer.account.omemo.performDuties(in: $0) }) {}
            try carry()
        }
        return true
    }

    /// An error of the peer is an error of the library.
    private func failing<R>(_ body: () throws -> R) throws -> R {
        do { return try body() } catch {
            world.model.fail("the peer failed: \(error)")
            throw error
        }
    }
}
