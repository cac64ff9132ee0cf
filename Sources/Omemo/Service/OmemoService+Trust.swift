public import Handlers
public import XMPPCore

extension OmemoService {
    // MARK: Trust

    /// Returns the identity keys of a user that were ever seen, the oldest first.
    ///
    /// - Parameters:
    ///   - jid: The user, or the own address for the own other devices; its resource is ignored.
    ///   - source: The step or snapshot to read in.
    /// - Returns: The keys, those that were replaced among them.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func identities(of jid: JID, in source: borrowing some Readable) throws(HandlerError)
        -> [OmemoIdentity]
    {
        try identities.identities(of: jid, in: source)
    }

    /// Writes down what the user decided about an identity key.
    ///
    /// Once a key of a user is ``OmemoTrust/verified``, every key of that user that is seen later waits for a decision.
    ///
    /// - Parameters:
    ///   - trust: What was decided.
    ///   - key: The key, as ``devices(of:in:)`` shows it.
    ///   - jid: The user; its resource is ignored.
    ///   - step: The step that it commits with.
    /// - Throws: ``OmemoError`` `unknownIdentity` when that user never had this key; ``/Handlers/HandlerError`` when
    ///   the store fails.
    public func setTrust(_ trust: OmemoTrust, in key: IdentityKey, of jid: JID, in step: borrowing Step)
        throws
    {
        guard try identities.set(trust, in: key, of: jid, in: step) else {
            throw OmemoError(
                .unknownIdentity, "\(jid.bare) never had the key \(key.fingerprint); compare the fingerprint")
        }
        try advance(in: step)
    }

    /// Gives up a session that the user holds for broken. The next message begins a new one.
    ///
    /// - Parameters:
    ///   - jid: The user, all of whose devices are meant; its resource is ignored.
    ///   - step: The step that it commits with.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    ///
    /// Source: XEP-0384 section 6: clients must offer a way to replace broken sessions.
    public func replaceSessions(with jid: JID, in step: borrowing Step) throws(HandlerError) {
        try step.write(
            "DELETE FROM omemo_session WHERE account = ? AND jid = ?", account.id, jid.bare.description)
        try step.write(
            "DELETE FROM omemo_fetch WHERE account = ? AND jid = ? AND device <> 0 AND is_running = 0",
            account.id, jid.bare.description)
    }
}
