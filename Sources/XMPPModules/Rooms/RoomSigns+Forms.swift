import Handlers
import XMPPAccount
import XMPPCore

// A service that prepares addresses by stringprep answers for `straße@…` as `strasse@…`. Where it does not, that is another room. So the
// service has to show that it means the room that was asked for: docs/internals/decisions/0013-forms-of-addresses.md.
extension RoomSigns {
    /// Asks a room for its address as its service writes it, ahead of the presence that asks it to let the account in: those who are
    /// there come before the own presence.
    func askForName(of room: Room, in step: borrowing Step) throws {
        guard room.jid.hasOtherForm else { return }
        try account.send(
            .discoInfo(of: room.jid), then: Durable(RoomNamed(room: room.jid, ticket: room.ticket)), in: step)
    }

    /// The room that sent a presence, if the account is in it or wants to be.
    func room(
        of presence: Presence, _ sender: JID, isOfRoom: Bool, in step: borrowing Step
    ) throws -> Room? {
        if let room = try table.room(sender, in: step), room.state != .left { return room }
        guard isOfRoom || presence.type == .error else { return nil }
        return try room(named: sender, by: presence, in: step)
    }

    /// The room that sent a presence as another form of its address, which it has from now on.
    private func room(named name: JID, by presence: Presence, in step: borrowing Step) throws -> Room? {
        for room in try table.joining(formOf: name, in: step)
        where try isAnswer(presence, of: name, to: room, in: step) {
            return try rename(room, to: name, in: step)
        }
        return nil
    }

    /// Gives a room the address that its service has shown.
    func rename(_ room: Room, to name: JID, in step: borrowing Step) throws -> Room? {
        guard try table.rename(room.jid, to: name, in: step) else { return nil }
        if account.moduleIfPresent(ArchiveModule.self) != nil {
            try ArchiveTable(account: account.id).rename(room.jid, to: name, in: step)
        }
        account.log(.info, .rooms, "\(room.jid): its service writes it as \(name)", after: step)
        return try table.room(name, in: step)
    }

    /// Returns whether the service answers a join with that presence, although it comes from another form of the room's address.
    ///
    /// Nobody but the room knows the id of the join, or the full address that it came from. That it says "yours" is enough of a service
    /// at the same domain: nobody has an account there who could say it.
    func isAnswer(_ presence: Presence, of name: JID, to room: Room, in step: borrowing Step) throws -> Bool {
        if presence.id == ForeignText(room.ticket) { return true }
        guard let said = RoomPresence(presence), said.isAvailable else { return false }
        if try said.occupant.jid.map({ try $0 == account.fullAddress(in: step) }) ?? false { return true }
        return try said.isSelf && name.domain == room.jid.domain
            && name.domain != account.ownAddress(in: step).domain
    }
}
