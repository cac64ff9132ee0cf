import Handlers
import XMPPAccount
import XMPPCore

/// How the account notices that it is in a room, and that the room has shown its history.
///
/// Status 110 and the subject say so (XEP-0045 sections 7.2.2 and 7.2.15), but not every service sends them: each sign counts alone.
struct RoomSigns {
    let account: Account
    let table: RoomTable

    /// Returns whether available presence is the account's own.
    ///
    /// - Parameter isKnown: Whether an occupant of that nickname was there before.
    func isOwn(
        _ said: RoomPresence, id: ForeignText?, isKnown: Bool, _ room: Room, in step: borrowing Step
    ) throws -> Bool {
        if said.isSelf { return true }
        if try isThisClient(said.occupant, in: step) { return true }
        switch room.state {
        // Section 7.2.2: the room may reflect the id of the presence that asked to join.
        case .joining: return id != nil && id == room.ticket
        case .joined:
            return try !isKnown && said.nick == room.askedNick && mayBeOwn(said.occupant, in: step)
        case .wanted, .left: return false
        }
    }

    /// Returns whether a message of a room shows that the account is in it, though no presence has said so: the subject, which ends a
    /// join, or any message after the presence of an occupant who has the nickname that was asked for.
    func hasJoined(_ room: Room, by message: Message, in step: borrowing Step) throws -> Bool {
        guard room.state == .joining else { return false }
        return try message.isRoomSubject || hasNickname(in: room, in: step)
    }

    /// Returns whether an occupant has the account's nickname who may be the account. The room lets nobody else have it, but a service
    /// that gives the account another nickname may have let somebody in before: so this alone waits for another sign.
    func hasNickname(in room: Room, in step: borrowing Step) throws -> Bool {
        guard let occupant = try table.occupant(room.nick, of: room.jid, in: step) else { return false }
        return try mayBeOwn(occupant, in: step)
    }

    private func mayBeOwn(_ occupant: RoomOccupant, in step: borrowing Step) throws -> Bool {
        guard let jid = occupant.jid else { return true }
        return try jid.bare == account.ownAddress(in: step).bare
    }

    private func isThisClient(_ occupant: RoomOccupant, in step: borrowing Step) throws -> Bool {
        guard let jid = occupant.jid, try mayBeOwn(occupant, in: step) else { return false }
        return try jid == account.fullAddress(in: step)
    }

    // MARK: History

    /// Gives a room's messages that come before the end of its history the mark of the room: older versions of XEP-0045 put the author
    /// there, and some services nobody. Later only the room is believed, because any occupant can write a delay.
    func unwrap(_ message: Message, in step: borrowing Step) throws -> UnwrappedMessage {
        guard message.type == .groupchat, let from = message.from,
            let index = message.element.children.firstIndex(where: Self.isDelay),
            !message.element.children("delay", Namespaces.delay).contains(where: {
                $0["from"] == from.bare.foreignText
            }), case .element(var delay) = message.element.children[index],
            let room = try table.room(from.bare, in: step), room.state == .joining || room.isInHistory
        else { return .untouched }
        delay["from"] = room.jid.foreignText
        var element = message.element
        element.children[index] = .element(delay)
        return .message(try Message(element: element), .direct)
    }

    private static func isDelay(_ node: Element.Node) -> Bool {
        guard case .element(let element) = node else { return false }
        return element.has(name: "delay", namespace: Namespaces.delay)
    }
}

extension Message {
    /// Whether it sets a room's subject: only a message that has a subject and no body does (XEP-0045 section 7.2.15).
    var isRoomSubject: Bool {
        type == .groupchat && element.child("subject", Namespaces.client) != nil
            && element.child("body", Namespaces.client) == nil
            && element.child("thread", Namespaces.client) == nil
    }
}
