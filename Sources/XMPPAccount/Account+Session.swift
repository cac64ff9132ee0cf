public import Handlers
public import XMPPCore

extension Account {
    /// Counts the sessions that were bound so far: what was learned under another number may have changed unnoticed.
    package func sessionNumber(in step: borrowing Step) throws(HandlerError) -> Int64 {
        try step.first("SELECT number FROM session WHERE account = ?", id) { $0.quantity(0) } ?? 0
    }

    /// Returns whether a process has an open stream of this account.
    package func hasOpenStream(in step: borrowing Step) throws(HandlerError) -> Bool {
        try sessions.openNumber(in: step) != nil
    }

    /// Returns whether a message out of an archive was deferred: it arrives again with a resumed stream.
    package func isDeferred(
        _ id: ForeignText, of archive: JID, in step: borrowing Step
    ) throws(HandlerError) -> Bool {
        try seen.isPostponed(id, archive: archive, in: step)
    }

    /// Returns the module of that type, if the account has it.
    package func moduleIfPresent<Module: AccountModule>(_ type: Module.Type) -> Module? {
        modules.first(of: type)
    }

    /// Features of all modules at this moment.
    ///
    /// For a module that shows them to others, in the answer to a request or in presence
    /// (``ModuleHooks/extendPresence``).
    ///
    /// ```swift
    /// let features = try account.features(in: step).sorted().joined(separator: " ")
    /// presence.append(Element("features", namespace: "urn:example:features", text: features))
    /// ```
    ///
    /// - Parameter step: The step to read in.
    /// - Returns: Namespaces, those of every module, ``ModuleHooks/features``.
    /// - Throws: The first error of a module; ``/Handlers/HandlerError`` when the store fails.
    ///
    /// Source: XEP-0030 section 3.1.
    public func features(in step: borrowing Step) throws -> Set<String> {
        try modules.features(of: self, in: step)
    }

    /// The account's bare address, as its server writes it: the one that it assigned at the last login that this process knows of,
    /// and before that the configured one.
    ///
    /// Most servers prepare addresses by older rules than ``/XMPPCore/JID``. An account that was configured as `groß@capulet.example` is
    /// `gross@capulet.example` there, and all that it sends and receives shows that.
    ///
    /// ```swift
    /// if message.from?.bare == account.address { return }  // from another client of the account
    /// ```
    ///
    /// Source: RFC 6120 section 7.6.
    public var address: JID { assigned.withLock { $0 } ?? configuration.jid }

    /// Returns the account's own bare address: what the server has assigned, and before the first login the configured one.
    package func ownAddress(in source: borrowing some Readable) throws -> JID {
        // An anonymous account has another one in each session, which another process may have bound.
        let isFixed = configuration.jid.local != nil
        if isFixed, let assigned = assigned.withLock({ $0 }) { return assigned }
        guard let own = try sessions.fullJID(in: source)?.bare else { return configuration.jid }
        assigned.withLock { $0 = own }
        return own
    }

    /// Returns the full address that the server has assigned; nil before a session was bound.
    package func fullAddress(in source: borrowing some Readable) throws(HandlerError) -> JID? {
        try sessions.fullJID(in: source)
    }

    /// Returns whether only the own server can have sent a stanza.
    ///
    /// For a module that lets its server change something by a request, as with roster pushes: everybody else can send
    /// the same request.
    ///
    /// ```swift
    /// guard try account.isFromOwnAccount(request.from, in: step) else { throw StanzaError(.forbidden) }
    /// ```
    ///
    /// - Parameters:
    ///   - sender: The stanza's `from`.
    ///   - source: The step or snapshot to read in.
    /// - Returns: True for no sender and for the account's bare address; false for a full address, the account's own included.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    ///
    /// Source: RFC 6120 section 8.1.2.1, RFC 6121 section 2.1.6.
    public func isFromOwnAccount(_ sender: JID?, in source: borrowing some Readable) throws -> Bool {
        guard let sender else { return true }
        return sender == (try ownAddress(in: source))
    }
}
