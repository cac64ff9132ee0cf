import Handlers
import XMPPCore

/// Received messages, to recognize duplicates.
///
/// XEP-0198 section 5 lets a server deliver a message again after a lost session, by offline storage or another way.
/// A copy carries the id its sender gave it and, where the own server stamps one, the same stanza id (XEP-0359).
/// Where two messages carry a stanza id, only that decides. Otherwise the sender's id does, together with the content:
/// some senders count their ids again at every start, and some use one id for everything.
///
/// Marks are counted to the bare address that wrote, so that no sender can push out the marks of others; see
/// ``SeenSenders``.
struct SeenTable {
    let account: Int64
    /// The marks that the modules need.
    let needed: (borrowing Step) throws(HandlerError) -> NeededMarks

    var senders: SeenSenders { SeenSenders(account: account, needed: needed) }

    /// Notes a message to the account `own`.
    ///
    /// - Returns: False when it was noted before: it is a duplicate.
    func isNew(_ message: InboundMessage, own: JID, in step: borrowing Step) throws(HandlerError) -> Bool {
        let marks = Self.marks(of: message, own)
        guard marks.given != nil || !marks.assigned.isEmpty else { return true }
        var sender = try senders.sender((message.message.from ?? own).bare, in: step)
        let isNew = try record(marks, of: &sender, in: step)
        try senders.store(sender, limit: SeenSenders.marksEach, in: step)
        if BuiltInFault.repeatArchived.isOn, case .archive = message.source { return true }
        return isNew || BuiltInFault.forgetDuplicates.isOn
    }

    private func record(
        _ marks: Marks, of sender: inout SeenSenders.Sender, in step: borrowing Step
    ) throws(HandlerError) -> Bool {
        for mark in marks.assigned {
            guard try record(mark, isNamed: true, of: &sender, in: step) else { return false }
        }
        guard let given = marks.given else { return true }
        if try record(given, isNamed: marks.isNamed, of: &sender, in: step) { return true }
        guard marks.isNamed else { return false }
        return try !pair(given, in: step)
    }

    /// Gives the id of this message to the one that was shown under the sender's mark without one, if there is one.
    private func pair(_ given: Mark, in step: borrowing Step) throws(HandlerError) -> Bool {
        let isNamed = try step.first(
            "SELECT is_named FROM seen_mark WHERE account = ? AND mark = ?", account, given.bytes
        ) { $0.integer(0) != 0 }
        if isNamed == true { return false }
        try step.write(
            "UPDATE seen_mark SET is_named = 1 WHERE account = ? AND mark = ?", account, given.bytes)
        return true
    }

    /// `BuiltInFault.markApart`: looks, and notes the message in a step of its own after the commit.
    func isNewApart(
        _ message: InboundMessage, own: JID, _ store: HandlerStore, in step: borrowing Step
    ) -> Bool {
        var wasNew = false
        try? step.undoingOnError {
            wasNew = try isNew(message, own: own, in: step)
            throw CancellationError()
        }
        step.afterCommit { _ = try? store.step { try isNew(message, own: own, in: $0) } }
        return wasNew
    }

    // MARK: What was sent from here

    /// Notes a message of our own, which archives, rooms and other clients' copies may give back.
    func recordSent(_ id: ForeignText, own: JID, in step: borrowing Step) throws(HandlerError) {
        var sender = try senders.sender(nil, in: step)
        let mark = Mark(peer: own.bare, id: "\(Mark.sent)\(id)", digest: 0)
        _ = try record(mark, isNamed: false, of: &sender, in: step)
        try senders.store(sender, limit: SeenSenders.marksSent, in: step)
    }

    /// Returns whether a message with that id was sent from here.
    func wasSent(_ id: ForeignText, own: JID, in step: borrowing Step) throws(HandlerError) -> Bool {
        let mark = Mark(peer: own.bare, id: "\(Mark.sent)\(id)", digest: 0)
        return try step.first(
            """
            SELECT 1 FROM seen_mark WHERE account = ?1 AND mark = ?2
            UNION ALL SELECT 1 FROM seen WHERE account = ?1 AND peer = ?3 AND stanza_id = ?4 AND digest = 0
            """, account, mark.bytes, mark.peer.description, mark.id.string
        ) { $0.integer(0) } != nil
    }

    // MARK: Messages that are handled later

    /// The message is not handled yet: a copy of it counts as new.
    func postpone(
        _ message: InboundMessage, own: JID, number: UInt32, in step: borrowing Step
    ) throws(HandlerError) {
        for mark in Self.marks(of: message, own).all {
            try step.write(
                "UPDATE seen_mark SET number = ? WHERE account = ? AND mark = ?", number, account, mark.bytes)
            try step.write(
                "UPDATE seen SET number = ? WHERE account = ? AND peer = ? AND stanza_id = ? AND digest = ?",
                number, account, mark.peer.description, mark.id, mark.digest)
        }
    }

    /// Returns whether a message out of an archive is not handled yet.
    func isPostponed(_ id: ForeignText, archive: JID, in step: borrowing Step) throws(HandlerError) -> Bool {
        let mark = Mark(peer: archive, id: "\(Mark.archived)\(id)", digest: 0)
        return try step.first(
            """
            SELECT 1 FROM seen_mark WHERE account = ?1 AND mark = ?2 AND number >= 0
            UNION ALL SELECT 1 FROM seen
            WHERE account = ?1 AND peer = ?3 AND stanza_id = ?4 AND digest = 0 AND number IS NOT NULL
            """, account, mark.bytes, archive.description, mark.id
        ) { $0.integer(0) } != nil
    }

    /// Records that the deferred message with this number in the session is now handled.
    func settle(number: UInt32, in step: borrowing Step) throws(HandlerError) {
        for table in ["seen_mark", "seen"] {
            try step.write(
                "UPDATE \(table) SET number = NULL WHERE account = ? AND number = ?", account, number)
        }
    }

    /// Forgets deferred messages: they arrive again in another session and are new then.
    func forgetPostponed(in step: borrowing Step) throws(HandlerError) {
        try step.write("UPDATE seen_mark SET number = -1 WHERE account = ? AND number IS NOT NULL", account)
        try step.write("DELETE FROM seen WHERE account = ? AND number IS NOT NULL", account)
    }

    // MARK: Marks

    /// The mark that a message is recognized by.
    struct Mark {
        /// Before the id of a message that was sent from here.
        static let sent = "sent "
        /// Before the id under which an archive keeps a message.
        static let archived = "stanza-id "

        let peer: JID
        let id: ForeignText
        let digest: Int64

        /// 16 bytes of SHA-256 over all of it. Two messages with the same ones cannot be found, so no sender can hide the
        /// message of another sender.
        var bytes: [UInt8] { Self.bytes(peer: peer.description, id: id, digest: digest) }

        static func bytes(peer: String, id: ForeignText, digest: Int64) -> [UInt8] {
            var input = Array(peer.utf8)
            // No address and no id has a zero byte.
            input.append(0)
            input.append(contentsOf: id.utf8)
            input.append(0)
            withUnsafeBytes(of: digest.littleEndian) { input.append(contentsOf: $0) }
            return SeenSenders.digest(input)
        }
    }

    /// The marks of one message.
    private struct Marks {
        /// Under the ids that archives gave it, the one that decides first.
        var assigned: [Mark] = []
        /// Under the id of the sender.
        var given: Mark?
        /// Whether it has the id that decides: of the room for what was said there, else of the own server.
        var isNamed = false

        var all: [Mark] { assigned + (given.map { [$0] } ?? []) }
    }

    private static func marks(of received: InboundMessage, _ own: JID) -> Marks {
        let message = received.message
        var marks = Marks()
        if let id = received.archiveID(of: own) {
            let archive = received.archive(of: own)
            marks.assigned.append(archived(id, in: archive))
            marks.isNamed = true
            // ejabberd keeps a room's message under another id than the one with which it was sent, and the copy has both.
            if let sent = message.stanzaID(by: archive)?.token, !sent.isEmpty, sent != id {
                marks.assigned.append(archived(sent, in: archive))
            }
        }
        if message.type == .groupchat {
            addRoom(of: received, to: &marks)
        } else if marks.isNamed, message.from?.bare == own.bare,
            message.to.map({ $0.bare == own.bare }) ?? true
        {
            // Prosody archives what an account sends to itself twice: as sent and as received.
            marks.isNamed = false
        }
        if let id = message.id, !id.isEmpty {
            marks.given = Mark(peer: message.from ?? own.bare, id: id, digest: digest(of: message))
        }
        return marks
    }

    /// Adds the id of the room to what comes out of another archive, which has an id of its own.
    private static func addRoom(of received: InboundMessage, to marks: inout Marks) {
        guard case .archive(let archive, _, _) = received.source, let room = received.message.from?.bare,
            room != archive
        else { return }
        let id = received.message.stanzaID(by: room).flatMap(\.token)
        marks.isNamed = id != nil
        if let id { marks.assigned.insert(archived(id, in: room), at: 0) }
    }

    private static func archived(_ id: ForeignText, in archive: JID) -> Mark {
        Mark(peer: archive, id: "\(Mark.archived)\(id)", digest: 0)
    }

    /// - Parameter isNamed: Whether the message has the id that decides.
    /// - Returns: Whether it was not noted before, or only for a message that is not handled yet.
    private func record(
        _ mark: Mark, isNamed: Bool, of sender: inout SeenSenders.Sender, in step: borrowing Step
    ) throws(HandlerError) -> Bool {
        let (peer, bytes, at) = (mark.peer.description, mark.bytes, sender.time(step.now))
        let isNoted =
            try step.execute(
                """
                INSERT INTO seen_mark(sender, at, mark, account, is_named) SELECT ?1, ?2, ?3, ?4, ?8
                WHERE NOT EXISTS
                    (SELECT 1 FROM seen WHERE account = ?4 AND peer = ?5 AND stanza_id = ?6 AND digest = ?7)
                ON CONFLICT DO NOTHING
                """, sender.id, at, bytes, account, peer, mark.id, mark.digest, isNamed) == 1
        if isNoted {
            sender.recorded(at: at)
            return true
        }
        let isPostponed =
            try step.execute(
                """
                UPDATE seen_mark SET number = NULL, is_named = ?
                WHERE account = ? AND mark = ? AND number IS NOT NULL
                """, isNamed, account, bytes) == 1
        if isPostponed { return true }
        return try step.execute(
            """
            UPDATE seen SET number = NULL
            WHERE account = ? AND peer = ? AND stanza_id = ? AND digest = ? AND number IS NOT NULL
            """, account, peer, mark.id, mark.digest) == 1
    }

    /// The elements that servers add on the way. The last is what came before stanza ids: ejabberd's archives still add it.
    private static let addedByServers: [String] = [
        Namespaces.delay, Namespaces.sid, "urn:xmpp:mam:tmp",
    ]

    /// A number made from what the sender wrote: type and content, without what servers add on the way.
    static func digest(of message: Message) -> Int64 {
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
