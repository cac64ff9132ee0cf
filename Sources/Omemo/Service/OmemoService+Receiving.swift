public import Handlers
import PubSub
import XMPPAccount
import XMPPCore
import XMPPModules

extension OmemoService {
    /// Lets a stored handler receive every decrypted message, in whatever process receives it.
    ///
    /// It runs inside the step that decrypts: the ratchet, what the handler writes and the account's received count commit
    /// together. If it throws, all of that is undone; the message is kept, still encrypted, and taken again later.
    ///
    /// - Parameters:
    ///   - key: Names this listener; the same key replaces it, so a program may call this at every start.
    ///   - handler: Called once for each message.
    /// - Throws: ``/XMPPAccount/AccountError`` `ownershipLost` or `closed`; ``/Handlers/HandlerError`` when the store
    ///   fails.
    public func listen(as key: String, _ handler: Durable<OmemoReceived>) async throws {
        try await account.perform { step in try self.listen(as: key, handler, in: step) }
    }

    /// Performs ``listen(as:_:)`` inside a step.
    package func listen(as key: String, _ handler: Durable<OmemoReceived>, in step: borrowing Step) throws {
        guard ForeignBounds.fitKey(key) else {
            throw HandlerError(
                .invalidKey,
                "the key of a listener has \(ForeignBounds.key) bytes at most; take a shorter one")
        }
        try account.listen(as: MessageTaken.id, MessageTaken().durable, in: step)
        let old = try step.first(
            "DELETE FROM omemo_listener WHERE account = ? AND key = ? RETURNING handler", account.id, key
        ) { AnyHandlerID(rawValue: $0.integer(0)) }
        if let old { try step.invalidate(old, reason: .cancelled) }
        let id = try step.bindStanding(handler)
        try step.write(
            "INSERT INTO omemo_listener(account, key, handler) VALUES (?, ?, ?)", account.id, key, id)
    }

    func deliver(_ received: OmemoReceived, in step: borrowing Step) throws {
        if BuiltInFault.ratchetApart.isOn {
            step.afterCommit { Task { try? await account.perform { try call(received, in: $0) } } }
        } else {
            try call(received, in: step)
        }
    }

    private func call(_ received: OmemoReceived, in step: borrowing Step) throws {
        let listeners = try step.all(
            "SELECT handler FROM omemo_listener WHERE account = ? ORDER BY key", account.id
        ) { HandlerID<OmemoReceived>(rawValue: $0.integer(0)) }
        for listener in listeners {
            guard let reason = try step.call(listener, with: received).reason else { continue }
            // What the program could not take is not taken: the ratchet must not go on without it.
            throw OmemoError(.undecryptable, "a listener failed, so the message stays encrypted: \(reason)")
        }
    }
}

/// Decrypts each message of the account, and stores pushed device lists.
///
/// It runs in the step that counts the message. The new ratchet, the writes of the program's listener and the received count
/// commit together, before the server gets an ack. An error rolls all of it back, and the message is decrypted again later.
struct MessageTaken: Handler {
    static let id = "omemo.message-taken"

    func run(_ call: borrowing Call<MessageReceived>) throws {
        let omemo = call.account.omemo
        // An error brings back what was sent from here: it says nothing of its sender's.
        guard call.message.type != .error else { return }
        // What an archive or a copy holds may be older than what is known.
        if call.context.source == .direct, call.message.from?.resource == nil,
            let event = call.message.element.child("event", Namespaces.pubsubEvent)
        {
            try omemo.learn(event: event, from: call.message.from ?? omemo.ownJID, in: call.step)
        }
        try OmemoArrival(service: omemo, received: call.context).handle(in: call.step)
    }
}

extension OmemoService {
    /// Takes over what a user's server pushes about a device list. Its sender is the owner: the server vouches for `from`.
    ///
    /// Source: XEP-0163 section 4.3; XEP-0060 sections 7.1.2, 7.2.2, 8.4.2 and 8.5.2.
    func learn(event: Element, from jid: JID, in step: borrowing Step) throws {
        for element in event.elements {
            guard let version = OmemoVersion.allCases.first(where: { element["node"] == $0.deviceListNode }),
                let own = Self.withoutForeign(element, owner: jid)
            else { continue }
            for change in PubSubEvent.Change.read(own) {
                try learn(change, of: jid, version, in: step)
            }
        }
    }

    /// The element without the items that somebody else was let publish; nil if there are no others.
    private static func withoutForeign(_ element: Element, owner: JID) -> Element? {
        var own = element
        own.children.removeAll { node in
            guard case .element(let item) = node, let publisher = item["publisher"] else { return false }
            return (try? JID(received: publisher))?.bare != owner
        }
        return own.elements.isEmpty && !element.elements.isEmpty ? nil : own
    }

    private func learn(
        _ change: PubSubEvent.Change, of jid: JID, _ version: OmemoVersion, in step: borrowing Step
    ) throws {
        switch change {
        case .items(let items):
            if items.last?.payload == nil { return try distrustList(of: jid, version, in: step) }
            guard let list = OmemoDeviceList(newestOf: items, version) else { return }
            _ = try learn(list, of: jid, in: step)
            try goOn(with: jid, version, in: step)
        // What is left is not said: an older item, or none.
        case .retracted: try distrustList(of: jid, version, in: step)
        case .purged, .deleted:
            guard try mayMatter(jid, version, in: step) else { return }
            _ = try learn(OmemoDeviceList(version, devices: []), of: jid, in: step)
            try goOn(with: jid, version, in: step)
        case .configured, .subscription, .associated, .disassociated: break
        }
    }

    /// Asks for a list of which something is said that the stored one does not tell. What is sent meanwhile waits for it.
    private func distrustList(of jid: JID, _ version: OmemoVersion, in step: borrowing Step) throws {
        guard try mayMatter(jid, version, in: step) else { return }
        try deviceLists.distrust(jid, version, in: step)
        try fetch(.init(jid: jid, version: version, device: nil), in: step)
    }

    /// Returns whether the list of that user was ever of use, or is one of a contact. A stranger's event causes no request.
    private func mayMatter(_ jid: JID, _ version: OmemoVersion, in step: borrowing Step) throws -> Bool {
        if jid == ownJID || account.moduleIfPresent(RosterModule.self) == nil { return true }
        if try deviceLists.learnedAt(jid, version, in: step) != nil { return true }
        return try account.roster.item(for: jid, in: step).map { $0.subscription != .none } ?? false
    }
}
