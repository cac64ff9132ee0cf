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
    /// The account's own bare address; only an anonymous one has to look it up.
    package func ownAddress(in step: borrowing Step) throws -> JID {
        if configuration.jid.local != nil { return configuration.jid }
        return try sessions.load(in: step).fullJID?.bare ?? configuration.jid
    }

    /// Whether only the own server can have sent this: it names no sender, or the account itself (RFC 6120 section
    /// 8.1.2.1).
    func isFromOwnAccount(_ sender: JID?, in step: borrowing Step) throws -> Bool {
        guard let sender else { return true }
        return sender == (try ownAddress(in: step))
    }
}
