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
    func isNew(_ message: Message, own: JID, in step: borrowing Step) throws(HandlerError) -> Bool {
        var isNew = true
        if let stanzaID = Self.stanzaID(of: message, own: own) {
            isNew = try note(peer: own.bare, id: "stanza-id " + stanzaID, digest: 0, in: step)
        }
        if isNew, let from = message.from, let id = message.id {
            isNew = try note(peer: from, id: id, digest: Self.digest(of: message), in: step)
        }
        return isNew
    }

    private func note(peer: JID, id: String, digest: Int64, in step: borrowing Step) throws(HandlerError)
        -> Bool
    {
        try step.execute(
            "INSERT OR IGNORE INTO seen(account, peer, stanza_id, digest, seen_at) VALUES (?, ?, ?, ?, ?)",
            account,
            peer.description, id, digest, step.now) == 1
    }

    /// The id that the own server gave the message. Anyone may write such an element; only the own server's counts
    /// (XEP-0359 section 3.1, the `by` attribute).
    private static func stanzaID(of message: Message, own: JID) -> String? {
        message.element.children("stanza-id", Namespaces.sid).first { element in
            element["by"].flatMap { try? JID($0) } == own.bare
        }?["id"]
    }

    /// A number made from what the sender wrote: type and content, without what servers add on the way.
    private static func digest(of message: Message) -> Int64 {
        var bytes = Array(message.type.rawValue.utf8)
        let serializer = Serializer()
        for child in message.element.elements
        where child.namespace != Namespaces.delay && child.namespace != Namespaces.sid {
            serializer.append(child, to: &bytes)
        }
        // FNV-1a: stable between processes and versions, which Swift's own hash is not. Not a defense against forgery;
        // the sender could only hide messages of its own.
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        return Int64(bitPattern: hash)
    }
}
