public import Handlers
import XMPPAccount
public import XMPPCore

// Invitations, through the room (XEP-0045 section 7.8.2) and from user to user (XEP-0249).
extension Rooms {
    /// Invites a user to a room that the account is in.
    ///
    /// - Parameters:
    ///   - user: The user.
    ///   - room: The room's bare address.
    ///   - directly: Whether to send the invitation to the user instead of letting the room send it. The room then
    ///     does not make the user a member; but users that take nothing from strangers may get it.
    ///   - reason: Why, in words for people.
    ///   - step: The step that it commits with.
    /// - Throws: ``/XMPPAccount/AccountError`` `notInRoom`, `outboxFull`.
    public func invite(
        _ user: JID, into room: JID, directly: Bool = false, reason: (any TextConvertible)? = nil,
        in step: borrowing Step
    ) throws {
        let known = try wanted(room, in: step)
        guard directly else { return try mediate("invite", user, reason, known.jid, in: step) }
        let x = Element(
            "x", namespace: Namespaces.conference,
            attributes: ["jid": known.jid.description, "password": known.password, "reason": reason])
        try account.send(Message(to: user, type: .normal, children: [x]), in: step)
    }

    /// Declines an invitation and forgets it. The sender is notified, unless the invitation was direct (XEP-0249
    /// section 2).
    ///
    /// - Parameters:
    ///   - room: The room's bare address.
    ///   - reason: Why, in words for people; nil for nothing.
    ///   - step: The step that it commits with.
    /// - Returns: False when there is no invitation into that room.
    /// - Throws: ``/XMPPAccount/AccountError`` `outboxFull`; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func decline(_ room: JID, reason: (any TextConvertible)? = nil, in step: borrowing Step) throws
        -> Bool
    {
        guard let invitation = try table.invitation(into: room.bare, in: step) else { return false }
        try table.removeInvitation(into: invitation.room, in: step)
        guard !invitation.isDirect, let by = invitation.by else { return true }
        try mediate("decline", by, reason, invitation.room, in: step)
        return true
    }

    private func mediate(
        _ name: String, _ user: JID, _ reason: (any TextConvertible)?, _ room: JID, in step: borrowing Step
    ) throws {
        let reasons = reason.map { [Element("reason", namespace: Namespaces.mucUser, text: $0)] } ?? []
        let word = Element(
            name, namespace: Namespaces.mucUser, attributes: ["to": user.description], children: reasons)
        let x = Element("x", namespace: Namespaces.mucUser, children: [word])
        try account.send(Message(to: room, type: .normal, children: [x]), in: step)
    }

    // MARK: Receiving

    /// - Returns: Whether the message was an invitation, or said to be one.
    func handle(invitation received: MessageReceived, in step: borrowing Step) throws -> Bool {
        let element = received.message.element
        guard received.source != .carbonSent, !received.isEcho, let from = received.message.from else {
            return false
        }
        let sentAt = min(received.sentAt ?? step.now, step.now)
        let x = element.child("x", Namespaces.mucUser)
        if let decline = x?.child("decline", Namespaces.mucUser) {
            return try handle(decline, from: from, element, in: step)
        }
        if let x, let invite = x.child("invite", Namespaces.mucUser) {
            return try handle(invite, in: x, from: from, element, sentAt, in: step)
        }
        guard let direct = element.child("x", Namespaces.conference), direct["jid"] != nil else {
            return false
        }
        return try handle(direct: direct, from: from, element, sentAt, in: step)
    }

    /// An invitation that a room sends: only a room can do that, under its bare address. Occupants and other users have
    /// full ones.
    private func handle(
        _ invite: Element, in x: Element, from: JID, _ element: Element, _ sentAt: Timestamp,
        in step: borrowing Step
    ) throws -> Bool {
        guard from.isBare, from.local != nil, from != account.address else {
            ignore(element, "\(from) is no room and cannot invite into one", after: step)
            return true
        }
        let invitation = RoomInvitation(
            room: from, by: invite["from"].flatMap { try? JID(received: $0) },
            reason: invite.child("reason", Namespaces.mucUser)?.text,
            password: x.child("password", Namespaces.mucUser)?.text,
            thread: invite.child("continue", Namespaces.mucUser)?["thread"], isDirect: false,
            receivedAt: sentAt)
        try store(invitation, in: step)
        return true
    }

    private func handle(
        direct: Element, from: JID, _ element: Element, _ sentAt: Timestamp, in step: borrowing Step
    ) throws -> Bool {
        guard let room = direct["jid"].flatMap({ try? JID(received: $0) }), room.isBare, room.local != nil
        else {
            ignore(element, "an invitation without a room", after: step)
            return true
        }
        let invitation = RoomInvitation(
            room: room, by: from, reason: direct["reason"], password: direct["password"],
            thread: direct["thread"], isDirect: true, receivedAt: sentAt)
        try store(invitation, in: step)
        return true
    }

    /// XEP-0249 section 5: who is in the room already need not be asked, and who was asked before not again.
    private func store(_ received: RoomInvitation, in step: borrowing Step) throws {
        let invitation = received.bounded
        let state = try table.room(invitation.room, in: step)?.state
        guard state == nil || state == .left else { return }
        let known = try table.invitation(into: invitation.room, in: step)
        try table.add(invitation, in: step)
        if known?.by != invitation.by || known == nil {
            report(invitation.room, .invited(invitation), after: step)
        }
    }

    private func handle(
        _ decline: Element, from: JID, _ element: Element, in step: borrowing Step
    ) throws -> Bool {
        guard from.isBare, let room = try table.room(from, in: step), room.state == .joined else {
            ignore(element, "\(from) is no room that this account is in", after: step)
            return true
        }
        let change = RoomEvent.Change.declined(
            by: decline["from"].flatMap { try? JID(received: $0) },
            reason: decline.child("reason", Namespaces.mucUser)?.text)
        report(room.jid, change, after: step)
        return true
    }
}

extension RoomInvitation {
    /// The invitation with texts that are not longer than ``ForeignBounds`` says.
    var bounded: RoomInvitation {
        RoomInvitation(
            room: room, by: by.flatMap { ForeignBounds.fitKey($0) ? $0 : nil },
            reason: reason?.prefix(bytes: ForeignBounds.words),
            password: password.flatMap(\.token), thread: thread.flatMap(\.token), isDirect: isDirect,
            receivedAt: receivedAt)
    }
}
