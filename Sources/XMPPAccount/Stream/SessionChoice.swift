public import Handlers
public import XMPPCore

/// The choice between resuming a session and binding a new one. See ``AccountConfiguration/chooseSession``.
///
/// ```swift
/// configuration.chooseSession = { session in session?.isLikelyKept == true ? .resume : .bind }
/// ```
public enum SessionChoice: Hashable, Sendable {
    /// Resumes the stored session, the default. Binds a new one if the server does not keep it.
    case resume
    /// Binds a new session. The stored one is then lost: requests that were sent in it are invalidated, and messages are
    /// sent again.
    case bind
    /// Does neither, leaves the server, and tries again after this time. The session stays stored. More than 0.
    case wait(Duration)
}

/// The session that an account could resume (XEP-0198 section 5).
///
/// ```swift
/// configuration.chooseSession = { session in (session?.idleTime ?? .zero) > .seconds(3600) ? .bind : .resume }
/// ```
public struct StoredSession: Hashable, Sendable {
    /// The full address that is bound in it.
    public let jid: JID
    /// How long the server keeps the session of a broken stream. Nil if it did not say.
    public let window: Duration?
    /// Wall-clock time since a process was last connected in the session. Nil if unknown.
    public let idleTime: Duration?
    /// Whether it is likely to be kept still: ``idleTime`` is within ``window``, or one of them is not known.
    public let isLikelyKept: Bool

    /// - Returns: Nil when there is no session that can be resumed.
    init?(_ state: SessionTable.State, now: Timestamp) {
        guard state.resumptionID != nil, let jid = state.fullJID else { return nil }
        self.jid = jid
        window = state.window
        idleTime = state.aliveAt.map { max(.zero, now - $0) }
        isLikelyKept = state.canResume(now: now)
    }
}

extension SessionOpening {
    /// Asks the program, once for each stream, before anything is sent that would resume or bind.
    ///
    /// - Returns: The time that the program wants to wait, in whole milliseconds; nil to log in now.
    mutating func choose() -> Duration? {
        switch configuration.chooseSession?(known.session) {
        case nil, .resume: return nil
        case .bind:
            mayResume = false
            return nil
        case .wait(let time): return .milliseconds(max(1, time.milliseconds))
        }
    }

    /// Lends what resumes the session, unless the program wants a new one.
    func withResumption(_ use: (StreamOpener.Resumption?) throws -> Void) throws {
        try opener.login.withResumption { try use(mayResume ? $0 : nil) }
    }
}

extension Account {
    /// Returns whether the server offered stream management at the last login. False before the first one.
    ///
    /// ```swift
    /// let isSafe = try store.read { try account.supportsStreamManagement(in: $0) }
    /// ```
    ///
    /// - Parameter source: The step or snapshot to read in.
    /// - Returns: Whether it did.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func supportsStreamManagement(in source: borrowing some Readable) throws -> Bool {
        try logins.isManaging(in: source)
    }
}
