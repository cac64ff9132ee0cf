public import Handlers
import XMPPAccount
public import XMPPCore
import XMPPModules

/// The recipients in a room.
extension OmemoService {
    /// Sets a room's members: all users with an affiliation of member or higher, also absent ones.
    ///
    /// - Parameters:
    ///   - members: The members' addresses, each with the name in the room while it is known. In a room that the
    ///     account is in by `account.rooms`, the names that the room shows count instead.
    ///   - room: The room's address.
    ///   - step: The step that it commits with.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    ///
    /// Source: XEP-0384 section 5.8.
    public func setMembers(_ members: [JID: ForeignText?], of room: JID, in step: borrowing Step) throws {
        try rooms.set(members, of: room, in: step)
        try advance(in: step)
    }

    /// Fetches a room's owners, admins and members, and stores them.
    ///
    /// As ``setMembers(_:of:in:)`` does, with the nicknames of the occupants. Call it after joining, and again after an occupant
    /// came or an affiliation changed (see `RoomEvent`).
    ///
    /// - Parameter room: A room for members only. It may refuse the question to those who are not its admins.
    /// - Throws: `StanzaError` when the room refuses; ``OmemoError`` `unknownRoom` when it names no occupant;
    ///   ``/XMPPAccount/AccountError`` without an answer. What was known stays then.
    ///
    /// Source: XEP-0045 sections 9.5, 10.5 and 10.8; XEP-0384 section 5.8.
    public func updateMembers(of room: JID) async throws {
        var members: [JID: ForeignText?] = [:]
        for affiliation in [RoomAffiliation.member, .admin, .owner] {
            for entry in try await account.request(.room(room).users(with: affiliation)) {
                if let jid = entry.jid { members.updateValue(nil, forKey: jid.bare) }
            }
        }
        guard !members.isEmpty else {
            throw OmemoError(.unknownRoom, "the room \(room.bare) names no members; set them before sending")
        }
        let found = members
        try await account.perform { step in
            var named = found
            for occupant in try self.account.rooms.occupants(of: room, in: step) {
                if let jid = occupant.jid?.bare, found.keys.contains(jid) { named[jid] = occupant.nick }
            }
            try self.setMembers(named, of: room, in: step)
        }
    }

    // MARK: Inside

    /// Returns whether the account is in a room, or wants to be.
    func isWanted(_ room: JID, in step: borrowing Step) throws -> Bool {
        guard hasRooms else { return false }
        return try account.rooms.room(room, in: step).map { $0.state != .left } ?? false
    }

    /// Returns the address of an occupant: the one that the room shows now, or else the one that the program set.
    func sender(named nick: ForeignText, of room: JID, in step: borrowing Step) throws -> JID? {
        let shown = hasRooms ? try account.rooms.occupant(nick, of: room, in: step)?.jid?.bare : nil
        return try shown ?? rooms.member(named: nick, in: room, in: step)
    }

    private var hasRooms: Bool { (try? account.module(RoomsModule.self)) != nil }
}
