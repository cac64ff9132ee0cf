import XMPPCore

/// The content of presence from a room: rules without account, store or clock.
struct RoomPresence {
    /// The room's bare address.
    let room: JID
    /// The nickname of the occupant.
    let nick: ForeignText
    let isAvailable: Bool
    /// Status codes (XEP-0045 section 15.6).
    let codes: Set<Int>
    private let item: Element?
    private let destroyed: Element?

    /// - Returns: Nil for what no occupant of a room can have sent.
    init?(_ presence: Presence) {
        guard let from = presence.from, let nick = from.resource,
            presence.type == nil || presence.type == .unavailable
        else { return nil }
        let x = presence.element.child("x", Namespaces.mucUser)
        if x == nil, presence.type == nil { return nil }
        room = from.bare
        self.nick = nick
        isAvailable = presence.type == nil
        codes = x?.statusCodes ?? []
        item = x?.child("item", Namespaces.mucUser)
        destroyed = x?.child("destroy", Namespaces.mucUser)
    }

    /// Whether the room says that it is the account's own: no other presence says that the room is new, or the nickname assigned.
    var isSelf: Bool { !codes.isDisjoint(with: [110, 201, 210]) }
    var isNewRoom: Bool { codes.contains(201) }

    /// The occupant as the room describes it now.
    var occupant: RoomOccupant {
        RoomOccupant(
            nick: nick, jid: item?["jid"].flatMap { try? JID(received: $0) },
            affiliation: item?["affiliation"].flatMap { RoomAffiliation($0) } ?? .none,
            role: item?["role"].flatMap { RoomRole($0) } ?? .none)
    }

    /// Whether the occupant gets another nickname (XEP-0045 section 7.6).
    var isRenaming: Bool { !isAvailable && (codes.contains(303) || newNick != nil) }

    /// The nickname that the occupant has from now on; nil when it left, or the room does not say.
    var newNick: ForeignText? {
        guard !isAvailable, codes.contains(303) || reason == .left, let new = item?["nick"],
            // Prepared as the address will be in which it stands.
            let prepared = (try? room.with(resource: new))?.resource, prepared != nick
        else { return nil }
        return prepared
    }

    /// The way in which the occupant left the room.
    var departure: RoomDeparture {
        RoomDeparture(
            reason, by: item?.child("actor", Namespaces.mucUser)?["nick"],
            text: (destroyed ?? item)?.child("reason", Namespaces.mucUser)?.text)
    }

    private var reason: RoomDeparture.Reason {
        if let destroyed {
            return .destroyed(alternative: destroyed["jid"].flatMap { try? JID(received: $0) })
        }
        // A failure is told as a kick too (XEP-0045 section 9.3.1).
        for (code, reason) in Self.reasons where codes.contains(code) { return reason }
        return .left
    }

    private static let reasons: [(Int, RoomDeparture.Reason)] = [
        (332, .shutdown), (333, .failed), (301, .banned), (321, .affiliationChanged), (322, .membersOnly),
        (307, .kicked),
    ]
}

extension Element {
    /// The codes in an `<x/>` of a room (XEP-0045 section 15.6); what is no number is none.
    var statusCodes: Set<Int> {
        Set(children("status", Namespaces.mucUser).compactMap { try? $0.value(of: "code", as: Int.self) })
    }
}
