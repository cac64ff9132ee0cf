import Handlers
import XMPPAccount
import XMPPCore
import XMPPModules

/// One message that arrived, on its way to being decrypted.
struct OmemoArrival {
    let service: OmemoService
    let received: MessageReceived
    private var message: Message { received.message }

    /// From this number in its chain on a message is answered by a heartbeat (XEP-0384 section 6).
    static let heartbeatAt: UInt32 = 53
    /// The time for which an own new session is preferred to one that the peer started.
    static let crossingWindow = Duration.seconds(120)

    // MARK: What it is

    private var isRoom: Bool { message.type == .groupchat }

    /// Returns the sender; in a room only a known occupant.
    private func sender(in step: borrowing Step) throws -> JID? {
        guard let from = message.from else { return service.ownJID }
        guard isRoom else { return from.bare }
        return try from.resource.flatMap { try service.sender(named: $0, of: from.bare, in: step) }
    }

    private var recipient: JID {
        if isRoom, let room = message.from?.bare { return room }
        // Whatever the stanza says: a message of somebody else's that reached us outside a room was for us.
        let isOwn = message.from.map { $0.bare == service.ownJID } ?? true
        return isOwn ? message.to?.bare ?? service.ownJID : service.ownJID
    }

    // MARK: Taking it

    /// Decrypts the message and hands the content to the program. What cannot be read is no error here: it was handled,
    /// and the program is notified.
    func handle(in step: borrowing Step) throws {
        let elements = message.element.elements.filter { element in
            element.name == "encrypted" && OmemoVersion(element.namespace) != nil
        }
        guard !elements.isEmpty, let own = try service.ownDevice.own(in: step) else { return }
        var encrypted: [OmemoEncrypted] = []
        do throws(OmemoError) {
            for element in elements.prefix(OmemoVersion.allCases.count) {
                if let read = try OmemoEncrypted.read(element, for: own.device, of: service.ownJID) {
                    encrypted.append(read)
                }
            }
        } catch { return try fail(error, nil, nil, nil, in: step) }
        try handle(encrypted, own: own, in: step)
    }

    private func handle(_ encrypted: [OmemoEncrypted], own: OwnIdentity, in step: borrowing Step) throws {
        guard let first = encrypted.first else { return }
        let sender = try sender(in: step)
        // A room, and an archive, give back what this device sent.
        if first.sender == own.device && (sender == nil || sender == service.ownJID) { return }
        guard let sender else {
            let error = OmemoError(
                .unknownRoom, "the sender's address in the room is not known; set the room's members")
            return try fail(error, nil, first.sender, first.version, in: step)
        }
        // Of the versions in one message only one is for this device.
        if let mine = encrypted.first(where: { !$0.keys.isEmpty }) {
            let peer = OmemoAddress(jid: sender, device: mine.sender, version: mine.version)
            return try open(mine, from: peer, own: own, in: step)
        }
        try service.checkListed(
            OmemoAddress(jid: sender, device: first.sender, version: first.version), in: step)
        guard encrypted.contains(where: { $0.payload != nil }) else { return }
        let error = OmemoError(.notForThisDevice, "the message was not encrypted for this device")
        try fail(error, sender, first.sender, first.version, in: step)
    }

    private func open(
        _ encrypted: OmemoEncrypted, from peer: OmemoAddress, own: OwnIdentity, in step: borrowing Step
    ) throws {
        var failure = SignalFailure.noSession
        for key in encrypted.keys {
            switch try decrypt(key, isEmpty: encrypted.payload == nil, from: peer, own: own, in: step) {
            case .success(var opened):
                defer { opened.keyMaterial.wipe() }
                return try read(encrypted, opened, from: peer, in: step)
            case .failure(let reason): failure = reason
            }
        }
        // With at-least-once delivery a second arrival is the usual case, and no failure.
        guard failure.error.code != .duplicate else { return }
        if failure.error.code != .malformed { try service.owe(.repair, to: peer, in: step) }
        try service.checkListed(peer, in: step)
        guard encrypted.payload != nil else { return }
        try fail(failure.error, peer.jid, peer.device, peer.version, in: step)
    }

    // MARK: The content

    private func read(
        _ encrypted: OmemoEncrypted, _ opened: Opened, from peer: OmemoAddress, in step: borrowing Step
    ) throws {
        try service.checkListed(peer, in: step)
        guard let payload = encrypted.payload else { return }
        let parser = step.keeping { EnvelopeParser() }
        let outcome: OmemoReceived.Outcome
        do throws(OmemoError) {
            outcome = .content(try content(payload, opened, iv: encrypted.iv, from: peer, parser))
        } catch {
            outcome = .failed(error)
        }
        let context = OmemoReceived(
            account: service.account, message: message, sender: peer.jid, device: peer.device,
            version: peer.version, identity: opened.identity, trust: opened.trust, outcome: outcome,
            isOutgoing: peer.jid == service.ownJID || received.isOutgoing, isHistory: received.isHistory)
        if try takeReceipts(of: context, in: step) { return }
        try service.deliver(context, in: step)
        OmemoFailpoint.delivered.hit()
    }

    /// Takes the receipt in an envelope, and confirms what asks there for one. In the legacy version these are in clear, and
    /// were handled before.
    ///
    /// - Returns: Whether it was a receipt and nothing else.
    private func takeReceipts(of context: OmemoReceived, in step: borrowing Step) throws -> Bool {
        guard context.version == .omemo2, service.account.moduleIfPresent(ChatModule.self) != nil,
            let decrypted = context.decrypted
        else { return false }
        let inner = MessageReceived(account: service.account, message: decrypted, source: received.source)
        if let id = decrypted.receivedID {
            try service.account.chat.recordReceipt(of: id, inner, in: step)
            return decrypted.body == nil
        }
        if !message.requestsReceipt { try service.account.chat.confirmIfAsked(inner, in: step) }
        return false
    }

    private func content(
        _ payload: [UInt8], _ opened: Opened, iv: [UInt8]?, from peer: OmemoAddress, _ parser: EnvelopeParser
    ) throws(OmemoError) -> OmemoContent {
        let plaintext = try OmemoPayload.decrypt(
            payload, keyMaterial: opened.keyMaterial, iv: iv, peer.version)
        guard peer.version == .legacy else {
            return try OmemoEnvelope.open(
                plaintext, sender: peer.jid, recipient: recipient, isRoom: isRoom, with: parser)
        }
        guard let text = String(validating: plaintext, as: UTF8.self) else {
            throw OmemoError(.envelopeRejected, "what was decrypted is no text")
        }
        // A stanza could not hold what is replaced, and a database on PostgreSQL no U+0000.
        return OmemoContent(body: ForeignText(text).carriable)
    }

    /// Reports to the program that a message could not be read.
    private func fail(
        _ error: OmemoError, _ sender: JID?, _ device: OmemoDeviceID?, _ version: OmemoVersion?,
        in step: borrowing Step
    ) throws {
        service.account.log(
            .warning, .omemo,
            "a message of \(sender?.description ?? "somebody")\(device.map { "/\($0)" } ?? "") cannot be read: \(error)",
            after: step)
        let context = OmemoReceived(
            account: service.account, message: message, sender: sender, device: device, version: version,
            identity: nil, trust: .undecided, outcome: .failed(error),
            isOutgoing: sender == service.ownJID || received.isOutgoing, isHistory: received.isHistory)
        try service.deliver(context, in: step)
    }

    // MARK: The ratchet

    /// The key of a content, and whose it is.
    private struct Opened {
        var keyMaterial: [UInt8]
        let identity: IdentityKey
        let trust: OmemoTrust
    }

    /// Decrypts a key and stores the ratchet. A key that cannot be decrypted changes nothing.
    ///
    /// - Throws: When the store fails.
    private func decrypt(
        _ key: OmemoEncrypted.Key, isEmpty: Bool, from peer: OmemoAddress, own: OwnIdentity,
        in step: borrowing Step
    ) throws -> Result<Opened, SignalFailure> {
        var old = try service.sessions.session(with: peer, in: step)
        let opened = step.keeping(of: service.account.id) { OpenSessions() }
        let memory = opened.memory(own, with: peer, record: old?.removeRecord())
        let session = SignalSession(peer.version, memory)
        defer { opened.keep(memory, with: peer) }
        do {
            if key.isKeyExchange {
                let exchange = try session.keyExchange(key.bytes)
                if let id = exchange.preKey {
                    memory.preKeys[id] = try service.ownDevice.preKey(id, in: step)
                }
                memory.signedPreKeys[exchange.signedPreKey] = try service.ownDevice.signedPreKey(
                    exchange.signedPreKey, in: step)
            }
            var decrypted = try session.decrypt(key.bytes, isKeyExchange: key.isKeyExchange)
            let isOld = try service.ownDevice.isOld(preKeys: memory.usedPreKeys, in: step)
            do throws(SignalFailure) {
                if isOld { try memory.retire(.current) }
                try memory.trim()
            } catch {
                decrypted.plaintext.wipe()
                throw error
            }
            // A new session without content replaces one that the other side could not use, maybe ours.
            let isRepair = isEmpty && !memory.usedPreKeys.isEmpty
            let identity = try store(memory, isRepair ? nil : old?.startedAt, from: peer, in: step)
            OmemoFailpoint.decrypted.hit()
            try record(decrypted, memory, old, from: peer, in: step)
            let trust = try service.identities.record(identity, of: peer.jid, device: peer.device, in: step)
            try service.sessions.recordUse(old, with: peer, in: step)
            if decrypted.isKeyExchange { try service.sessions.trim(peer.jid, in: step) }
            return .success(Opened(keyMaterial: decrypted.plaintext, identity: identity, trust: trust))
        } catch let failure as SignalFailure { return .failure(failure) }
    }

    /// Stores the session as it is now.
    ///
    /// - Parameters:
    ///   - startedAt: When this side started a session; nil when no such one is to be preferred.
    private func store(
        _ memory: SignalMemory, _ startedAt: Timestamp?, from peer: OmemoAddress, in step: borrowing Step
    ) throws -> IdentityKey {
        let open = try memory.removeOpen()
        guard let identity = open.record.identity else { throw SignalFailure.noSession }
        // A clock that was set back tells nothing.
        if let startedAt, (.zero..<Self.crossingWindow).contains(step.now - startedAt),
            !open.record.isUnanswered,
            var preferred = try open.record.preferringOwn()
        {
            defer { preferred.wipe() }
            try service.sessions.store(
                preferred, identity: identity, startedAt: startedAt, isOld: nil, with: peer, in: step)
        } else {
            try service.sessions.store(
                memory.session ?? [], identity: identity,
                startedAt: open.record.isUnanswered ? startedAt : nil,
                isOld: open.record.isForReadingOnly ? true : nil, with: peer, in: step)
            memory.putBack(open)
        }
        return identity
    }

    /// Notes what follows from a decrypted message.
    private func record(
        _ decrypted: SignalSession.Decrypted, _ memory: SignalMemory, _ old: OmemoSessionTable.Session?,
        from peer: OmemoAddress, in step: borrowing Step
    ) throws {
        for id in memory.usedPreKeys { _ = try service.ownDevice.markUsed(preKey: id, in: step) }
        // The session works, so there is nothing to repair.
        try service.duties.drop(.repair, to: peer, in: step)
        // Only the one that began the session: two sides would answer each other's repetitions for ever.
        if !memory.usedPreKeys.isEmpty { try service.owe(.answer, to: peer, in: step) }
        if decrypted.counter >= Self.heartbeatAt && old?.heartbeat != decrypted.chain {
            try service.sessions.recordHeartbeat(chain: decrypted.chain, with: peer, in: step)
            try service.owe(.heartbeat, to: peer, in: step)
        }
    }
}
