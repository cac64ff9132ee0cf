public import Handlers
import XMPPAccount
public import XMPPCore

// Messages to and from rooms.
extension Rooms {
    // MARK: Sending

    /// Sends a message to everybody in a room.
    ///
    /// It waits until the account is in the room. What a room has not sent back when a session is lost is sent to it
    /// again
    /// after it was joined and has shown what it has: so it arrives, and once.
    ///
    /// - Parameters:
    ///   - message: Its type and address are set here, and an id where it has none.
    ///   - room: The room's bare address.
    ///   - step: The step that it commits with.
    /// - Returns: The message's id, by which ``/XMPPAccount/MessageReceived/isEcho`` and events know it.
    /// - Throws: ``/XMPPAccount/AccountError`` `notInRoom`, `missingModule`, `outboxFull` when as many messages wait for rooms as
    ///   the outbox may hold; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func send(_ message: Message, to room: JID, in step: borrowing Step) throws -> String {
        let known = try wanted(room, in: step)
        try checkBacklog(in: step)
        var element = message.element
        let id = message.id ?? ForeignText(StanzaID.random())
        let kept = message.originID ?? id
        guard kept.token != nil, ForeignBounds.fitKey(known.jid, kept) else {
            throw AccountError(
                .invalidStanza,
                "the id of the message has \(kept.utf8.count) bytes; give it one of \(ForeignBounds.token) bytes at most, and fewer in a room with a long address"
            )
        }
        (element["id"], element["type"], element["to"]) = (id, "groupchat", known.jid.foreignText)
        element["from"] = nil
        if element.child("origin-id", Namespaces.sid) == nil {
            // XEP-0359 section 3.2: a room may give a message another id when it sends it back.
            element.append(Element("origin-id", namespace: Namespaces.sid, attributes: ["id": id]))
        }
        // What waits already goes first, and is being looked after.
        let isNext = try known.state == .joined && !table.hasUnsent(in: known.ticket, to: known.jid, in: step)
        try table.add(element, id: kept, to: known.jid, in: step)
        if isNext { try flush(known, again: false, in: step) }
        return id.string
    }

    private func checkBacklog(in step: borrowing Step) throws {
        let limit = account.configuration.maximumOutbox
        guard try table.hasRoom(limit, in: step) else {
            throw AccountError(
                .outboxFull,
                "\(limit) messages of \(account.configuration.jid) wait for rooms; wait until these have them"
            )
        }
    }

    /// Sends a text to everybody in a room; see ``send(_:to:in:)-(Message,_,_)``.
    ///
    /// - Parameters:
    ///   - body: The text.
    ///   - room: The room's bare address.
    ///   - step: The step that it commits with.
    /// - Returns: The message's id.
    /// - Throws: ``/XMPPAccount/AccountError`` `notInRoom`, `missingModule` or `outboxFull`; ``/Handlers/HandlerError`` when the
    ///   store fails.
    @discardableResult
    public func send(_ body: any TextConvertible, to room: JID, in step: borrowing Step) throws -> String {
        try send(Message(to: room, type: .groupchat, body: body), to: room, in: step)
    }

    /// Sets a room's subject. ``RoomEvent/Change/subject(_:by:)`` reports it to all occupants, with this account.
    ///
    /// - Parameters:
    ///   - subject: Nil or nothing removes it.
    ///   - room: The room's bare address.
    ///   - step: The step that it commits with.
    /// - Throws: ``/XMPPAccount/AccountError`` `notInRoom`, `outboxFull`.
    public func setSubject(_ subject: (any TextConvertible)?, of room: JID, in step: borrowing Step) throws {
        let known = try wanted(room, in: step)
        let element = Element("subject", namespace: Namespaces.client, text: subject)
        try account.send(Message(to: known.jid, type: .groupchat, children: [element]), in: step)
    }

    /// The number of attempts after which a message counts as one that the room never reflects.
    private static let tryLimit: Int64 = 3

    /// The maximum number of messages that are sent at once.
    private static let batch = 250
    /// The wait of the remaining messages.
    private static let pause = Duration.seconds(1)

    /// Sends what waits for a room that the account is in, as far as the outbox takes it; the rest follows by itself.
    ///
    /// - Parameter again: Whether the room has shown all that it has: what has not come back by then is sent again.
    func flush(_ room: Room, again: Bool, in step: borrowing Step) throws {
        // In order: what is new waits behind what may have to be sent again.
        guard try again || !table.hasUnsent(in: room.ticket, to: room.jid, before: true, in: step) else {
            return
        }
        for message in try table.unsent(in: room.ticket, to: room.jid, limit: Self.batch, in: step) {
            guard message.tries < Self.tryLimit else {
                try table.confirm(message.id, to: room.jid, in: step)
                report(room.jid, .messageUnconfirmed(id: message.id), after: step)
                continue
            }
            guard try account.hasRoom(mayUseReserve: false, in: step) else { break }
            let text = String(decoding: message.xml, as: UTF8.self)
            let element = try Element(parsing: text, defaultNamespace: Namespaces.client)
            try account.send(Message(element: element), in: step)
            try table.recordSent(message, in: room.ticket, in: step)
        }
        guard try table.hasUnsent(in: room.ticket, to: room.jid, in: step) else { return }
        let rest = RoomBacklog(room: room.jid, ticket: room.ticket, again: again)
        try step.schedule(rest.durable, after: Self.pause, in: account.scope)
    }

    /// Sends the waiting messages after joining. Those that may have been sent before wait until the room has answered a ping,
    /// which it does after its history.
    func catchUp(_ room: Room, in step: borrowing Step) throws {
        if try table.hasUnsent(in: room.ticket, to: room.jid, before: true, in: step) {
            try ping(room, in: step)
        } else {
            try flush(room, again: false, in: step)
        }
    }

    func giveUpMessages(to room: Room, in step: borrowing Step) throws {
        for message in try table.unsent(in: "", to: room.jid, in: step) {
            report(room.jid, .messageUnconfirmed(id: message.id), after: step)
        }
        try table.removeMessages(to: room.jid, in: step)
    }

    // MARK: Receiving

    /// - Returns: Whether the message was for this module alone.
    func handle(_ received: MessageReceived, in step: borrowing Step) throws -> Bool {
        switch received.message.type {
        case .groupchat: try handle(groupchat: received, in: step)
        case .error: try handle(bounced: received.message, in: step)
        default: try handle(invitation: received, in: step)
        }
    }

    private func handle(groupchat received: MessageReceived, in step: borrowing Step) throws -> Bool {
        let message = received.message
        // What an archive gives out was checked by who asked it.
        if case .archive(let archive, _, _) = received.source {
            if received.isEcho, let id = message.originID { try table.confirm(id, to: archive, in: step) }
            return false
        }
        guard received.source == .direct, let from = message.from,
            let room = try self.room(of: message, from, in: step)
        else {
            let sender = message.from?.bare.description ?? "the server"
            ignore(message.element, "the account is not in the room \(sender)", after: step)
            return true
        }
        if isRepeated(received, room) { return true }
        if room.isInHistory, message.isRoomSubject || message.delay == nil {
            try table.endHistory(of: room.jid, in: step)
        }
        // Nobody's word is taken for a time that has not come.
        try table.advance(
            room.jid, archiveID: received.archiveID, time: min(message.delay ?? step.now, step.now),
            connectedTime: connectedTime(in: step), in: step)
        if received.isEcho, let id = message.originID { try table.confirm(id, to: room.jid, in: step) }
        return try handleNews(message, from: from, room, in: step)
    }

    /// The room of a message, if the account is in it or may be.
    private func room(of message: Message, _ from: JID, in step: borrowing Step) throws -> Room? {
        guard let room = try table.room(from.bare, in: step), room.state == .joining || room.state == .joined
        else { return nil }
        guard try signs.hasJoined(room, by: message, in: step) else { return room }
        try account.usingReserve(in: step) { try joined(room, as: room.nick, in: step) }
        // Who was told may have left again.
        return try table.room(from.bare, in: step).flatMap { $0.state == .joined ? $0 : nil }
    }

    /// Returns whether a message without any id was seen before: of those the room sends some again after it was joined again.
    private func isRepeated(_ received: MessageReceived, _ room: Room) -> Bool {
        guard received.message.id?.isEmpty ?? true, received.archiveID == nil,
            let stamp = received.message.delay,
            let seen = room.cursor?.time
        else { return false }
        return stamp <= seen && room.joinedAt.map { stamp < $0 } ?? (stamp < Timestamp(milliseconds: 0))
    }

    /// Handles a room's messages about itself.
    private func handleNews(_ message: Message, from: JID, _ room: Room, in step: borrowing Step) throws
        -> Bool
    {
        // XEP-0045 section 7.2.15: only a message that has a subject and no body sets the subject.
        guard message.element.child("body", Namespaces.client) == nil else { return false }
        if message.isRoomSubject, let subject = message.element.child("subject", Namespaces.client) {
            let text = subject.text.isEmpty ? nil : subject.text.prefix(bytes: ForeignBounds.subject)
            guard text != room.subject else { return true }
            try table.set(subject: text, by: from, room.jid, in: step)
            report(room.jid, .subject(text, by: from), after: step)
            return true
        }
        guard from.isBare, let x = message.element.child("x", Namespaces.mucUser) else { return false }
        let codes = x.statusCodes
        guard !codes.isEmpty else { return false }
        report(room.jid, .configurationChanged(codes), after: step)
        return true
    }

    /// A message that came back from a room.
    ///
    /// One that says that the account is not in the room any more (XEP-0045 section 7.4) lets it be joined again, and the
    /// message is sent again then.
    private func handle(bounced message: Message, in step: borrowing Step) throws -> Bool {
        guard let from = message.from, from.isBare, let id = message.id,
            let room = try table.room(from, in: step), room.state != .left,
            try table.isUnconfirmed(id, to: room.jid, in: step)
        else { return false }
        let error =
            message.element.child("error", Namespaces.client).flatMap { StanzaError($0) }
            ?? StanzaError(.undefinedCondition)
        if error.condition == .notAcceptable {
            if room.state == .joined { try rejoin(room, in: step) }
            return true
        }
        try table.confirm(id, to: room.jid, in: step)
        report(room.jid, .messageRefused(id: id, error), after: step)
        return false
    }
}
