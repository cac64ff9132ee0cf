import Handlers
import XMPPCore

/// The messages that were handled, to recognize copies.
///
/// XEP-0198 section 5 lets a server deliver a message again after a lost session, by offline storage or another way.
/// A copy carries the id its sender gave it and, where the own server stamps one, the same stanza id (XEP-0359).
/// Because some senders count their ids anew at every start, an id counts only together with the content.
struct SeenTable {
    let account: Int64

    /// Notes a message.
    ///
    /// - Returns: False when it was noted before: it is a copy.
    func isNew(_ message: MessageReceived, in step: borrowing Step) throws(HandlerError) -> Bool {
        for mark in Self.marks(of: message) where try !note(mark, in: step) {
            return Mutation.forgetCopies.isOn
        }
        return true
    }

    // MARK: What was sent from here

    /// Notes a message of our own, which archives, rooms and other clients' copies may give back.
    func noteSent(_ id: ForeignText, own: JID, in step: borrowing Step) throws(HandlerError) {
        try step.execute(
            "INSERT OR IGNORE INTO seen(account, peer, stanza_id, digest, seen_at) VALUES (?, ?, ?, 0, ?)",
            account, own.bare.description, "sent \(id)", step.now)
    }

    /// Whether a message with that id was sent from here.
    func wasSent(_ id: ForeignText, own: JID, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.first(
            "SELECT 1 FROM seen WHERE account = ? AND peer = ? AND stanza_id = ? AND digest = 0", account,
            own.bare.description, "sent \(id)"
        ) { (row) throws(HandlerError) in row.integer(0) } != nil
    }

    /// The message is not handled yet: a copy of it counts as new.
    func postpone(_ message: MessageReceived, number: UInt32, in step: borrowing Step) throws(HandlerError) {
        for mark in Self.marks(of: message) {
            try step.execute(
                "UPDATE seen SET number = ? WHERE account = ? AND peer = ? AND stanza_id = ? AND digest = ?",
                number, account, mark.peer.description, mark.id, mark.digest)
        }
    }

    /// Whether a message out of an archive is not handled yet.
    func isPostponed(_ id: ForeignText, archive: JID, in step: borrowing Step) throws(HandlerError) -> Bool {
        try step.first(
            """
            SELECT 1 FROM seen
            WHERE account = ? AND peer = ? AND stanza_id = ? AND digest = 0 AND number IS NOT NULL
            """, account, archive.description, Self.archiveMark(id)
        ) { (row) throws(HandlerError) in row.integer(0) } != nil
    }

    /// The message with that number in the session is handled now.
    func settle(number: UInt32, in step: borrowing Step) throws(HandlerError) {
        try step.execute("UPDATE seen SET number = NULL WHERE account = ? AND number = ?", account, number)
    }

    /// What is not handled comes again in another session, and is then new.
    func forgetPostponed(in step: borrowing Step) throws(HandlerError) {
        try step.execute("DELETE FROM seen WHERE account = ? AND number IS NOT NULL", account)
    }

    /// What a message is recognized by.
    private struct Mark {
        let peer: JID
        let id: ForeignText
        let digest: Int64
    }

    private static func archiveMark(_ id: ForeignText) -> ForeignText { "stanza-id \(id)" }

    private static func marks(of received: MessageReceived) -> [Mark] {
        let message = received.message
        var marks: [Mark] = []
        if let id = received.archiveID {
            marks.append(Mark(peer: received.archive, id: archiveMark(id), digest: 0))
        }
        if let from = message.from, let id = message.id {
            marks.append(Mark(peer: from, id: id, digest: digest(of: message)))
        }
        return marks
    }

    /// - Returns: Whether it was not noted before, or only for a message that is not handled yet.
    private func note(_ mark: Mark, in step: borrowing Step) throws(HandlerError) -> Bool {
        let peer = mark.peer.description
        let isNoted =
            try step.execute(
                "INSERT OR IGNORE INTO seen(account, peer, stanza_id, digest, seen_at) VALUES (?, ?, ?, ?, ?)",
                account, peer, mark.id, mark.digest, step.now) == 1
        if isNoted { return true }
        let isPostponed =
            try step.execute(
                """
                UPDATE seen SET number = NULL
                WHERE account = ? AND peer = ? AND stanza_id = ? AND digest = ? AND number IS NOT NULL
                """, account, peer, mark.id, mark.digest) == 1
        return isPostponed
    }

    /// What servers add on the way. The last is what came before stanza ids: ejabberd's archives still add it.
    private static let addedByServers: [String] = [
        Namespaces.delay, Namespaces.sid, "urn:xmpp:mam:tmp",
    ]

    /// A number made from what the sender wrote: type and content, without what servers add on the way.
    private static func digest(of message: Message) -> Int64 {
        var bytes = Array(message.type.rawValue.utf8)
        let serializer = Serializer()
        for child in message.element.elements where !addedByServers.contains(child.namespace) {
            serializer.append(child, to: &bytes)
        }
        // FNV-1a: stable between processes and versions, which Swift's own hash is not. Not a defense against forgery;
        // the sender could only hide messages of its own.
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        return Int64(bitPattern: hash)
    }
}
