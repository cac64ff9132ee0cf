public import Handlers
import XMPPAccount
import XMPPCore

extension OmemoService {
    /// The number of published prekeys. XEP-0384 section 4.2: around 100, never fewer than 25.
    package static let preKeyCount = 100
    /// The time for which a signed prekey is used, and then kept for reading: two weeks each (section
    /// 4.2: a week to a month).
    package static let signedPreKeyLife = Duration.seconds(14 * 24 * 60 * 60)
    /// The maximum time for which a prekey stays readable that was used, or retired.
    static let usedPreKeyLife = Duration.seconds(30 * 24 * 60 * 60)

    /// Makes this account able to encrypt: makes the own device, publishes it, and takes encrypted messages in from
    /// now on.
    ///
    /// Call it at every start of a main program, before or after connecting. It returns once everything that can be done
    /// without an answer is committed; the answers finish it in whatever process receives them.
    ///
    /// - Throws: ``OmemoError`` `cryptoFailed`; ``/XMPPAccount/AccountError`` `missingModule` without
    ///   ``OmemoModule``, `outboxFull`, `closed`; ``/Handlers/HandlerError`` when the store fails.
    ///
    /// Source: XEP-0384 sections 4.2 and 5.3.
    public func start() async throws {
        let _: OmemoModule = try account.module()
        try await account.listen(as: MessageTaken.id, MessageTaken().durable)
        try await account.perform { step in try self.start(in: step) }
        followUp()
    }

    /// Performs ``start()`` inside a step.
    package func start(in step: borrowing Step) throws {
        if let own = try ownDevice.own(in: step) {
            try retireCopied(own, in: step)
        } else {
            let own = try SignalKeys.makeIdentity(device: Self.randomDevice(except: []))
            try ownDevice.insert(own, in: step)
        }
        try maintain(in: step)
        try renew(in: step)
    }

    /// Begins again with everybody, and publishes the keys again, when the database was put back from a backup.
    ///
    /// Those who write with this device have seen the next keys of its ratchets, and would take new messages for duplicates of
    /// old ones. What they have sent since the backup can still be read with the old ratchets, so these stay for that.
    /// What others begin with a prekey of the backup is read likewise, and replaced by a session with a new prekey.
    func retireCopied(_ own: OwnIdentity, in step: borrowing Step) throws {
        guard try ownDevice.isCopied(own, in: step) else { return }
        try sessions.retireAll(in: step)
        try ownDevice.retirePreKeys(in: step)
        _ = try ownDevice.fillPreKeys(upTo: Self.preKeyCount, in: step)
        try publications.raiseRevision(in: step)
    }

    /// Asks for the own lists, tries again to publish what failed, and goes on with what waits.
    func renew(in step: borrowing Step) throws {
        for version in Self.versions {
            try publications.change(version, in: step) { state in state.hasFailed = false }
            try fetch(.init(jid: ownJID, version: version, device: nil), in: step)
        }
        try advance(in: step)
    }

    /// Renews the own keys: those that were used, and the signed prekey when it is old.
    func maintain(in step: borrowing Step) throws {
        guard let own = try ownDevice.own(in: step) else { return }
        var isChanged = try ownDevice.fillPreKeys(upTo: Self.preKeyCount, in: step)
        let madeAt = try ownDevice.signedPreKeyMadeAt(in: step)
        if madeAt.map({ $0 <= step.now - Self.signedPreKeyLife }) ?? true {
            try ownDevice.rotateSignedPreKey(own, in: step)
            isChanged = true
        }
        if isChanged { try publications.raiseRevision(in: step) }
        try ownDevice.deleteSignedPreKeys(replacedBefore: step.now - Self.signedPreKeyLife, in: step)
        let start = step.now - Self.usedPreKeyLife
        try ownDevice.deleteUsedPreKeys(before: start, in: step)
        try ownDevice.deleteRetiredPreKeys(before: start, in: step)
    }

    // MARK: The own device

    /// Returns the own device's number and identity key; nil before ``start()``.
    ///
    /// - Parameter source: The step or snapshot to read in.
    /// - Returns: Number and key; the private part never leaves the library.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func own(in source: borrowing some Readable) throws(HandlerError) -> (
        device: OmemoDeviceID, key: IdentityKey
    )? {
        try ownDevice.own(in: source).map { ($0.device, $0.key) }
    }

    /// Returns why the own keys could not be published. Nil if nothing failed.
    ///
    /// - Parameters:
    ///   - version: Which of the two.
    ///   - source: The step or snapshot to read in.
    /// - Returns: The reason; the next session tries again.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func publicationFailure(
        _ version: OmemoVersion, in source: borrowing some Readable
    ) throws(HandlerError) -> String? {
        try publications.failure(version, in: source)
    }
}
