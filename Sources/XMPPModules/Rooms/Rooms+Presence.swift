import Handlers
import XMPPAccount
import XMPPCore

// Presence that comes from rooms. Only what a room sends that the account is in, or asks to be let into, counts.
extension Rooms {
    func handle(_ presence: Presence, in step: borrowing Step) throws {
        guard let from = presence.from else { return }
        let isOfRoom =
            presence.element.child("x", Namespaces.mucUser) != nil
            || presence.element.child("x", Namespaces.muc) != nil
        guard let room = try signs.room(of: presence, from.bare, isOfRoom: isOfRoom, in: step) else {
            if isOfRoom { ignore(presence.element, "\(from.bare) is no room of this account", after: step) }
            return
        }
        if let error = presence.error { return try handle(error, of: presence, room, in: step) }
        guard let said = RoomPresence(presence), room.state != .wanted else { return }
        guard said.isAvailable else { return try handle(gone: said, room, in: step) }
        try handle(available: said, of: presence, room, in: step)
    }

    /// Handles the refusal to join or to change the nickname. An error carries the id of what it answers.
    private func handle(
        _ error: StanzaError, of presence: Presence, _ room: Room, in step: borrowing Step
    ) throws {
        switch room.state {
        case .joining where presence.id == nil || presence.id == room.ticket:
            try refused(room, error, in: step)
        case .joined:
            guard let asked = room.askedNick else {
                // Another sign than the room's own word had it taken for joined.
                if presence.id == room.ticket { try refused(room, error, in: step) }
                return
            }
            try table.set(askedNick: nil, room.jid, in: step)
            report(room.jid, .nickRefused(asked, error), after: step)
        default: break
        }
    }

    private func handle(
        available said: RoomPresence, of presence: Presence, _ room: Room, in step: borrowing Step
    ) throws {
        let known = try table.occupant(said.nick, of: room.jid, in: step)
        let isOwn = try signs.isOwn(said, id: presence.id, isKnown: known != nil, room, in: step)
        guard try table.set(said.occupant, of: room.jid, in: step) || isOwn else {
            return ignore(
                presence.element,
                "\(room.jid) has more than \(RoomTable.occupantLimit) occupants, or one with a name that is too long",
                after: step)
        }
        if isOwn {
            if room.state == .joining {
                // Nothing would let the account in once more if there were no place for what it asks of the room then.
                return try account.usingReserve(in: step) {
                    try joined(room, as: said.nick, isNew: said.isNewRoom, in: step)
                }
            }
            if room.nick != said.nick {
                // The room has not said that the old one is gone.
                try table.remove(room.nick, of: room.jid, in: step)
                try renamed(room, to: said.nick, in: step)
            }
        } else if room.state == .joined {
            try table.heard(room.jid, connectedTime: connectedTime(in: step), in: step)
        }
        if known != said.occupant { report(room.jid, .occupant(said.occupant), after: step) }
    }

    private func handle(gone said: RoomPresence, _ room: Room, in step: borrowing Step) throws {
        // While joining, the room may still tell of an own session that is over.
        let isOwn = room.state == .joined && (said.isSelf || said.nick == room.nick)
        if let nick = said.newNick ?? (isOwn && said.isRenaming ? room.askedNick : nil) {
            try table.rename(said.nick, to: nick, of: room.jid, in: step)
            guard isOwn else {
                return report(room.jid, .occupantRenamed(from: said.nick, to: nick), after: step)
            }
            return try renamed(room, to: nick, in: step)
        }
        // The presence under the new nickname says what it is.
        if isOwn, said.isRenaming {
            try table.remove(said.nick, of: room.jid, in: step)
            return
        }
        if isOwn { return try depart(room, said.departure, isOwnWish: false, in: step) }
        guard try table.remove(said.nick, of: room.jid, in: step), room.state == .joined else { return }
        report(room.jid, .occupantLeft(nick: said.nick, said.departure), after: step)
    }

    private func renamed(_ room: Room, to nick: ForeignText, in step: borrowing Step) throws {
        try table.set(nick: nick, room.jid, in: step)
        report(room.jid, .nickChanged(from: room.nick, to: nick), after: step)
    }

    /// Reports an element that its sender must not send; nothing was changed.
    func ignore(_ element: Element, _ reason: String, after step: borrowing Step) {
        account.ignore(element, reason, after: step)
    }
}
