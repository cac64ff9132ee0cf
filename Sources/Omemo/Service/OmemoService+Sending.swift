public import Handlers
public import XMPPAccount
import XMPPModules
import XMPPTransport
public import XMPPCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

extension OmemoService {
    /// The maximum number of messages that wait for lists and bundles.
    package static let maximumWaiting = 1000

    // MARK: Sending

    /// Encrypts a message for the devices of both users, and sends it.
    ///
    /// Device lists and keys that are missing are fetched first; until then the message waits in the store, and those
    /// after it to the same user wait too. Ratchets and ciphertext commit together, so that what is sent again after
    /// a lost connection is the same ciphertext. A message that no device of the recipient could read is not sent.
    ///
    /// - Parameters:
    ///   - content: What to say.
    ///   - jid: The user; a resource is ignored.
    ///   - acknowledged: Called once the server has taken responsibility for it (XEP-0198).
    ///   - then: Called once it was handed to the outbox, or given up, with what became of it for each device.
    ///   - step: The step that it commits with.
    /// - Returns: The message's id.
    /// - Throws: ``OmemoError`` `noDevice` before ``start()``; ``/XMPPAccount/AccountError`` `outboxFull`, also when
    ///   too many messages wait; ``/Handlers/HandlerError`` when the store fails.
    ///
    /// Source: XEP-0384 section 5.5.
    @discardableResult
    public func send(
        _ content: OmemoContent, to jid: JID, acknowledged: Durable<StanzaAcknowledged>? = nil,
        then: Durable<OmemoSending>? = nil, in step: borrowing Step
    ) throws -> String {
        try send(content, to: jid.bare, isRoom: false, acknowledged, then, in: step)
    }

    /// Encrypts a message for all members of a room and sends it there.
    ///
    /// - Parameters:
    ///   - content: What to say.
    ///   - room: A room whose members were set with ``setMembers(_:of:in:)`` or ``updateMembers(of:)``. It should be
    ///     for members only and must show their addresses. If the account is in it, or wants to be (`account.rooms`),
    ///     the ciphertext waits until it is, and is sent again until the room has it.
    ///   - acknowledged: Called once the server has taken responsibility for it; the message is then written at once,
    ///     and lost if the account is not in the room.
    ///   - then: Called once it was handed to the outbox, or given up, with what became of it for each device.
    ///   - step: The step that it commits with.
    /// - Returns: The message's id.
    /// - Throws: As ``send(_:to:acknowledged:then:in:)``; ``OmemoError`` `unknownRoom` when its members are not
    ///   known.
    ///
    /// Source: XEP-0384 section 5.8.
    @discardableResult
    public func send(
        _ content: OmemoContent, toRoom room: JID, acknowledged: Durable<StanzaAcknowledged>? = nil,
        then: Durable<OmemoSending>? = nil, in step: borrowing Step
    ) throws -> String {
        guard try !rooms.members(of: room, in: step).isEmpty else {
            throw OmemoError(.unknownRoom, "the members of \(room) are not known; set them before sending")
        }
        return try send(content, to: room.bare, isRoom: true, acknowledged, then, in: step)
    }

    private func send(
        _ content: OmemoContent, to target: JID, isRoom: Bool, _ acknowledged: Durable<StanzaAcknowledged>?,
        _ then: Durable<OmemoSending>?, in step: borrowing Step
    ) throws -> String {
        guard let own = try ownDevice.own(in: step) else { throw Self.noDevice }
        let draft = OmemoDraft(id: StanzaID.random(), target: target, isRoom: isRoom, content: content)
        let handler = if let then { try step.bind(then) } else { HandlerID<OmemoSending>?.none }
        // What waits goes first, so that the order stays.
        if try waiting.hasAny(for: target, in: step) == false {
            if try attempt(draft, own, acknowledged, handler, in: step) { return draft.id }
        }
        guard try waiting.count(in: step) < Self.maximumWaiting else {
            throw AccountError(
                .outboxFull,
                "\(Self.maximumWaiting) messages wait for device lists and keys; wait until the account has been connected"
            )
        }
        let stored = try acknowledged.map { try [UInt8](JSONEncoder().encode($0)) }
        try waiting.append(draft, acknowledged: stored, handler: handler, in: step)
        return draft.id
    }

    static var noDevice: OmemoError {
        OmemoError(.noDevice, "this account has no OMEMO device yet; call start() once it may have one")
    }

    // MARK: Messages that wait

    /// Sends what waits and can go now; asks for what is missing for the rest.
    func advance(in step: borrowing Step) throws {
        let targets = try waiting.targets(in: step)
        guard !targets.isEmpty, let own = try ownDevice.own(in: step) else { return }
        for target in targets {
            while let next = try waiting.first(for: target, in: step) {
                let acknowledged = try next.acknowledged.map {
                    try JSONDecoder().decode(Durable<StanzaAcknowledged>.self, from: Data($0))
                }
                guard try attempt(next.draft, own, acknowledged, next.handler, in: step) else { break }
                try waiting.delete(next.id, in: step)
            }
        }
    }

    /// Sends a message, or gives it up. Returns false when something must be fetched first; it was asked for.
    private func attempt(
        _ draft: OmemoDraft, _ own: OwnIdentity, _ acknowledged: Durable<StanzaAcknowledged>?,
        _ handler: HandlerID<OmemoSending>?, in step: borrowing Step
    ) throws -> Bool {
        try retireCopied(own, in: step)
        let recipients = try recipients(of: draft, in: step)
        let plan = try plan(draft, recipients, own, in: step)
        guard plan.missing.isEmpty else {
            for subject in plan.missing { try fetch(subject, in: step) }
            return false
        }
        var sealing = Sealing(
            service: self, draft: draft, content: draft.completed(for: account), own: own,
            failures: plan.failures)
        try sealing.seal(plan.targets, recipients: recipients, in: step)
        if sealing.isReadable { try sealing.send(acknowledged, in: step) }
        if let handler {
            let report = OmemoSending(
                account: account, id: draft.id, target: draft.target, isSent: sealing.isReadable,
                devices: sealing.report)
            try step.end(handler, sealing.isReadable ? .result : .error, with: report)
        }
        return true
    }

    private func recipients(of draft: OmemoDraft, in step: borrowing Step) throws -> [JID] {
        let own = ownJID
        let others = draft.isRoom ? try rooms.members(of: draft.target, in: step) : [draft.target]
        return others.filter { $0 != own }
    }

    private func plan(
        _ draft: OmemoDraft, _ recipients: [JID], _ own: OwnIdentity, in step: borrowing Step
    ) throws -> OmemoPlan {
        let session = try account.sessionNumber(in: step)
        var plan = OmemoPlan()
        let legacyCarries = OmemoBeside.elements(of: draft.content) != nil
        for jid in recipients + [ownJID] {
            let own = jid == ownJID ? own.device : nil
            plan.add(
                try user(jid, session: session, except: own, in: step), preference: Self.versions,
                legacyCarries: legacyCarries, session: session, now: step.now, except: own)
        }
        return plan
    }
}

/// Encrypts one message for its devices.
private struct Sealing {
    let service: OmemoService
    let draft: OmemoDraft
    let content: OmemoContent
    let own: OwnIdentity
    var failures: [OmemoSending.Device]
    var messages: [OmemoEncrypted] = []
    var reached: [OmemoSending.Device] = []
    var isReadable = false

    var report: [OmemoSending.Device] { reached + failures }

    mutating func seal(_ targets: [OmemoAddress], recipients: [JID], in step: borrowing Step) throws {
        for version in OmemoService.versions {
            let targets = targets.filter { $0.version == version }
            if targets.isEmpty { continue }
            var payload = try OmemoPayload.encrypt(plaintext(version), version)
            defer { payload.keyMaterial.wipe() }
            var message = OmemoEncrypted(
                version: version, sender: own.device, keys: [], iv: payload.iv, payload: payload.ciphertext)
            for target in targets {
                do {
                    message.keys.append(
                        try service.encrypt(payload.keyMaterial, for: target, own: own, in: step))
                    reached.append(.init(jid: target.jid, device: target.device, failure: nil))
                } catch let failure as SignalFailure {
                    let words = failure.error.message
                    failures.append(
                        .init(jid: target.jid, device: target.device, failure: .broken(ForeignText(words))))
                    try service.owe(.repair, to: target, in: step)
                }
            }
            if !message.keys.isEmpty { messages.append(message) }
        }
        // A copy for the own devices alone would tell them of a message that nobody got.
        isReadable = reached.contains { recipients.contains($0.jid) || recipients.isEmpty }
    }

    private func plaintext(_ version: OmemoVersion) -> [UInt8] {
        version == .legacy
            ? Array((content.body ?? "").utf8)
            : OmemoEnvelope.bytes(
                content, from: service.ownJID, room: draft.isRoom ? draft.target : nil)
    }

    func send(_ acknowledged: Durable<StanzaAcknowledged>?, in step: borrowing Step) throws {
        let stanza = OmemoService.stanza(
            messages, to: draft.target, id: draft.id, type: draft.isRoom ? .groupchat : .chat,
            beside: OmemoBeside.elements(of: content) ?? [])
        if draft.isWatched(by: service.account) {
            try service.account.chat.send(completed: stanza, acknowledged: acknowledged, in: step)
        } else if draft.isRoom, acknowledged == nil, try service.isWanted(draft.target, in: step) {
            try service.account.rooms.send(stanza, to: draft.target, in: step)
        } else {
            try service.account.send(stanza, acknowledged: acknowledged, in: step)
        }
        OmemoFailpoint.sealed.hit()
    }
}

extension OmemoService {
    // MARK: One device

    /// Encrypts key material in the session with a device and stores the ratchet.
    func encrypt(
        _ keyMaterial: [UInt8], for peer: OmemoAddress, own: OwnIdentity, in step: borrowing Step
    ) throws -> OmemoEncrypted.Key {
        guard var session = try sessions.session(with: peer, in: step), !session.isOld else {
            throw SignalFailure.noSession
        }
        let opened = step.keeping(of: account.id) { OpenSessions() }
        let memory = opened.memory(own, with: peer, record: session.removeRecord())
        let encrypted = try SignalSession(peer.version, memory).encrypt(keyMaterial)
        try sessions.advance(memory.session ?? [], with: peer, in: step)
        try sessions.recordUse(session, with: peer, in: step)
        opened.keep(memory, with: peer)
        OmemoFailpoint.encrypted.hit()
        return OmemoEncrypted.Key(
            jid: peer.jid, device: peer.device, isKeyExchange: encrypted.isKeyExchange, bytes: encrypted.bytes
        )
    }

    /// Sends a device a message without content, which moves the ratchet on or begins a session.
    ///
    /// Source: XEP-0384 section 5.5.1; for the legacy version section 4.6 of its version 0.3.
    func sendEmpty(to peer: OmemoAddress, own: OwnIdentity, in step: borrowing Step) throws {
        let material = OmemoPayload.emptyKeyMaterial(peer.version)
        let key = try encrypt(material, for: peer, own: own, in: step)
        let message = OmemoEncrypted(
            version: peer.version, sender: own.device, keys: [key],
            iv: peer.version == .legacy ? Crypto.randomBytes(12) : nil, payload: nil)
        try account.send(Self.stanza([message], to: peer.jid, id: StanzaID.random(), type: .chat), in: step)
    }

    /// The stanza around a message, which may be encrypted in both versions, each for other devices.
    ///
    /// - Parameter beside: What clients of the legacy version expect in clear.
    static func stanza(
        _ messages: [OmemoEncrypted], to target: JID, id: String, type: Message.Kind, beside: [Element] = []
    ) -> Message {
        // XEP-0420 sections 6 and 8: nothing that says anything beside an envelope. Clients of the legacy version expect a text.
        let isForLegacy = messages.contains { $0.version == .legacy && $0.payload != nil }
        // XEP-0359 section 3.2; no more than the id says. Without content nobody refers to it.
        let origin = Element("origin-id", namespace: Namespaces.sid, attributes: ["id": id])
        let origins = messages.contains { $0.payload != nil } ? [origin] : []
        let hints = messages.map { message in
            Element(
                "encryption", namespace: Namespaces.encryptionMark,
                attributes: ["namespace": message.version.namespace, "name": "OMEMO"])
        }
        return Message(
            to: target, type: type, id: id, body: isForLegacy ? "This message is encrypted with OMEMO." : nil,
            children: messages.map(\.element) + hints + [ProcessingHint.store.element] + origins
                + (isForLegacy ? beside : []))
    }
}

extension SignalFailure {
    static let noSession = SignalFailure(code: -1008)
}
