package import Handlers
package import XMPPCore

extension Account {
    /// Counts the sessions that were bound so far: what was learned under another number may have changed unnoticed.
    package func sessionNumber(in step: borrowing Step) throws(HandlerError) -> Int64 {
        try step.first("SELECT number FROM session WHERE account = ?", id) {
            (row) throws(HandlerError) in row.quantity(0)
        } ?? 0
    }
}

extension Account {
    /// Whether a process has an open stream of this account.
    package func hasOpenStream(in step: borrowing Step) throws(HandlerError) -> Bool {
        try sessions.live(in: step) != nil
    }

    /// Whether a message out of an archive was deferred: it arrives again with a resumed stream.
    package func isDeferred(
        _ id: ForeignText, of archive: JID, in step: borrowing Step
    ) throws(HandlerError) -> Bool {
        try seen.isPostponed(id, archive: archive, in: step)
    }

    /// The module of that type, if the account has it.
    package func moduleIfPresent<Module: AccountModule>(_ type: Module.Type) -> Module? {
        modules.first(of: type)
    }

    /// What the modules understand at this moment.
    package func features(in step: borrowing Step) throws -> Set<String> {
        try modules.features(of: self, in: step)
    }

    /// The account's own bare address; only an anonymous one has to look it up.
    package func ownAddress(in step: borrowing Step) throws -> JID {
        if configuration.jid.local != nil { return configuration.jid }
        return try sessions.load(in: step).fullJID?.bare ?? configuration.jid
    }

    /// Whether only the own server can have sent this: it names no sender, or the account itself (RFC 6120 section
    /// 8.1.2.1).
    package func isFromOwnAccount(_ sender: JID?, in step: borrowing Step) throws -> Bool {
        guard let sender else { return true }
        return sender == (try ownAddress(in: step))
    }
}
