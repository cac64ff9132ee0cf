public import XMPPCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The stored state of a room.
///
/// ```swift
/// let rooms = try account.store.read { try account.rooms.all(in: $0) }
/// for room in rooms where room.state == .joined { print(room.jid, room.subject ?? "") }
/// ```
///
/// Source: XEP-0045.
public struct Room: Hashable, Sendable {
    /// State of the account in the room.
    public enum State: String, Hashable, Sendable, Codable {
        /// The account wants to be in it and will request that.
        case wanted
        /// The account has asked to be let in.
        case joining
        /// The account is in it.
        case joined
        /// The account does not want to be in it. What was learned about it is kept.
        case left
    }

    /// The room's bare address.
    public let jid: JID
    /// The account's nickname in it: the one that was asked for, and once joined the one that it has.
    public internal(set) var nick: ForeignText
    /// State of the account in the room.
    public internal(set) var state: State
    /// Subject of the room; nil if it has none.
    public let subject: ForeignText?
    /// The occupant that set the subject, or the room.
    public let subjectBy: JID?
    /// Up to where its messages were received.
    package let cursor: RoomCursor?

    let password: ForeignText?
    let history: RoomHistory
    /// Whether it was joined since it is wanted: what refuses it then is not the end.
    let wasJoined: Bool
    /// Whether the program sets a new room up itself.
    let configures: Bool
    /// Names one stay in the room, or the attempt at it: the id of the presence that asked for it.
    let ticket: String
    /// When it was joined last.
    let joinedAt: Timestamp?
    /// The nickname that was asked for while it is joined.
    let askedNick: ForeignText?
    /// Whether the room may still be sending what was said before.
    let isInHistory: Bool

    /// The account's own address in the room.
    var occupant: JID { get throws { try jid.with(resource: nick) } }
}

/// Up to where a room's messages were received.
///
/// ```swift
/// let time = try account.store.read { try account.rooms.room(council, in: $0)?.cursor?.time }
/// ```
package struct RoomCursor: Hashable, Sendable {
    /// The id under which the room's archive keeps the last message (XEP-0359); nil when the room has no archive.
    package let archiveID: ForeignText?
    /// When the last message was sent, as far as that is known here.
    package let time: Timestamp
}

/// The amount of history that a room sends on joining.
///
/// It counts for a room of which nothing was seen yet. Of any other the room is asked for what has come since the last
/// message that was seen, as far as the room keeps it; what it does not keep is in its archive (XEP-0313).
///
/// ```swift
/// try account.rooms.join(council, as: "Juliet", history: .last(20), in: step)
/// ```
///
/// Source: XEP-0045 section 7.2.14.
public enum RoomHistory: Hashable, Sendable, Codable {
    /// The default of the room.
    case usual
    /// Nothing.
    case none
    /// The last messages, so many at most.
    case last(Int)
    /// The messages since this time.
    case since(Timestamp)
}

/// An occupant of a room.
///
/// ```swift
/// let occupants = try account.store.read { try account.rooms.occupants(of: council, in: $0) }
/// let moderators = occupants.filter { $0.role == .moderator }.map(\.nick)
/// ```
public struct RoomOccupant: Hashable, Sendable {
    /// The nickname.
    public let nick: ForeignText
    /// The real address; nil where the room hides it.
    public let jid: JID?
    /// The lasting standing in the room.
    public let affiliation: RoomAffiliation
    /// The role of the occupant during this visit.
    public let role: RoomRole
}

/// A user's lasting affiliation with a room (XEP-0045 section 5.2).
///
/// ```swift
/// let bans = try await account.request(.room(council).users(with: .outcast))
/// ```
public enum RoomAffiliation: String, Hashable, Sendable, CaseIterable, Codable {
    /// May do everything. May do what keeps order; belongs to the room; none of these.
    case owner, admin, member, none
    /// Banned.
    case outcast
}

/// The role of an occupant during a visit (XEP-0045 section 5.1).
///
/// ```swift
/// try await account.request(.room(council).setRole(.visitor, of: "Tybalt", reason: "Brawling"))
/// ```
public enum RoomRole: String, Hashable, Sendable, CaseIterable, Codable {
    /// May put others out and give them a voice. May speak; may listen.
    case moderator, participant, visitor
    /// No role: the occupant has left the room.
    case none
}

/// Departure of an occupant from a room.
///
/// ```swift
/// if case .left(let departure) = event.change, departure.reason == .banned { print(departure.text ?? "") }
/// ```
///
/// Source: XEP-0045 sections 7.14, 8.2, 9.1, 10.9 and 17.
public struct RoomDeparture: Hashable, Sendable {
    /// Reason of a departure.
    public enum Reason: Hashable, Sendable {
        /// The occupant left.
        case left
        /// Put out by a moderator (status 307).
        case kicked
        /// Put out for good by an admin (status 301).
        case banned
        /// Put out because the affiliation changed (status 321).
        case affiliationChanged
        /// Put out because the room is for members only now (status 322).
        case membersOnly
        /// The service shuts down (status 332).
        case shutdown
        /// Something failed between the room and the occupant (status 333).
        case failed
        /// The room was destroyed. Another one takes its place, if there is an address.
        case destroyed(alternative: JID?)
    }

    /// The reason.
    public let reason: Reason
    /// The nickname of who did it, if the room says so.
    public let by: ForeignText?
    /// A sentence for people.
    public let text: ForeignText?

    /// Describes a departure.
    ///
    /// - Parameters:
    ///   - reason: Why.
    ///   - by: The nickname of the occupant who did it; nil if unknown.
    ///   - text: A sentence for people; nil for none.
    package init(_ reason: Reason, by: ForeignText? = nil, text: ForeignText? = nil) {
        self.reason = reason
        self.by = by
        self.text = text
    }

    /// Whether the account left or was removed on purpose, so that it does not join again.
    var isFinal: Bool {
        switch reason {
        case .kicked, .banned, .affiliationChanged, .membersOnly, .destroyed: true
        case .left, .shutdown, .failed: false
        }
    }
}

/// An invitation into a room.
///
/// ```swift
/// for invitation in try account.store.read({ try account.rooms.invitations(in: $0) }) {
///     print(invitation.room, invitation.reason ?? "")
/// }
/// ```
///
/// Source: XEP-0045 section 7.8.2, XEP-0249.
public struct RoomInvitation: Hashable, Sendable {
    /// The room's bare address.
    public let room: JID
    /// The inviter. Only the room vouches for the address if ``isDirect`` is false.
    public let by: JID?
    /// The reason, as text for people.
    public let reason: ForeignText?
    /// The password that the room requires.
    public let password: ForeignText?
    /// The thread of the one-to-one conversation that continues in the room.
    package let thread: ForeignText?
    /// Whether it came from the one who invites and not through the room.
    public let isDirect: Bool
    /// When it came, or was sent if it was held up on the way.
    package let receivedAt: Timestamp
}

extension RoomHistory {
    var stored: [UInt8] { get throws { try [UInt8](JSONEncoder().encode(self)) } }

    init(stored bytes: [UInt8]) throws { self = try JSONDecoder().decode(Self.self, from: Data(bytes)) }
}

extension Room {
    /// The requested history of the room; nil for the room's default (XEP-0045 section 7.2.14).
    var wantedHistory: Element? {
        if let since = cursor?.time ?? (wasJoined ? joinedAt : nil) {
            return Self.history("since", (since - ArchiveTable.overlap).description)
        }
        return switch history {
        case .usual: nil
        case .none: Self.noHistory
        case .last(let count): Self.history("maxstanzas", String(count))
        case .since(let time): Self.history("since", time.description)
        }
    }

    /// Asks for nothing of a room's history.
    static let noHistory = history("maxstanzas", "0")

    private static func history(_ name: String, _ value: String) -> Element {
        var history = Element("history", namespace: Namespaces.muc)
        history[name] = ForeignText(value)
        return history
    }
}
