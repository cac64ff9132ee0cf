import Handlers

/// Stream management by the program (XEP-0198).
extension Account {
    /// Policy for ack requests and acks; a change applies at once.
    public var acknowledgements: AcknowledgementPolicy {
        get { acknowledgementPolicy.withLock { $0 } }
        set {
            acknowledgementPolicy.withLock { $0 = newValue }
            mailbox.signal.raise()
        }
    }

    /// Sends an ack request now, regardless of the policy. The ack arrives as
    /// ``AccountEvent/acknowledged(_:)``.
    ///
    /// - Throws: ``AccountError`` `connectionFailed` when there is no stream with stream management.
    public func requestAcknowledgement() async throws { try await ask { .manage(.request, $0) } }

    /// Acknowledges to the server now all stanzas that are committed here.
    ///
    /// - Throws: ``AccountError`` `connectionFailed` when there is no stream with stream management.
    public func sendAcknowledgement() async throws { try await ask { .manage(.acknowledge, $0) } }

    /// Returns whether the next connection is likely to resume the session: the server keeps it, and not for a time that is
    /// over.
    ///
    /// Connecting always tries, as far as there is anything to resume: failing costs nothing.
    ///
    /// - Returns: Whether it is worth telling the user that nothing was missed; a clock that was set back says
    ///   nothing.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func canResume() throws -> Bool {
        try store.read { snapshot in try self.sessions.load(in: snapshot).canResume(now: snapshot.now) }
    }
}
