public import Handlers
public import XMPPAccount
public import XMPPCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The context of a handler that waits to be let into a room.
///
/// ```swift
/// @Handler("council.joined")
/// static func joined(_ call: borrowing Call<RoomJoined>) throws {
///     guard case .joined = call.outcome else { return }
///     try call.account.rooms.send("Good morning", to: call.room, in: call.step)
/// }
/// ```
public struct RoomJoined: Sendable {
    /// Outcome of the handler.
    public enum Outcome: Hashable, Sendable {
        /// The account is in the room.
        case joined
        /// The room does not let it in. The condition says why (XEP-0045 section 7.2):
        ///
        /// | Condition | Why |
        /// |---|---|
        /// | `notAuthorized` | the password is missing or wrong |
        /// | `registrationRequired` | the room is for members only |
        /// | `forbidden` | the account is banned |
        /// | `conflict` | another occupant has the nickname |
        /// | `serviceUnavailable` | the room is full |
        /// | `itemNotFound` | the room is being set up |
        /// | `notAllowed` | the service does not permit new rooms |
        /// | `notAcceptable` | the nickname is not the registered one |
        case refused(StanzaError)
        /// The room did not answer in time. The account sent it unavailable presence.
        case timedOut
        /// The program left the room or joined again before the answer.
        case abandoned
    }

    /// The account that asked.
    public let account: Account
    /// The room's bare address.
    public let room: JID
    /// The nickname that the account has, or asked for.
    public let nick: ForeignText
    /// The outcome.
    public let outcome: Outcome
    /// Whether the room did not exist before (status 201).
    public let isNew: Bool

    init(account: Account, room: JID, nick: ForeignText, outcome: Outcome, isNew: Bool = false) {
        self.account = account
        self.room = room
        self.nick = nick
        self.outcome = outcome
        self.isNew = isNew
    }
}

extension RoomJoined: StoredContext, AccountContext {
    private struct Stored: Codable {
        var room: JID
        var nick: String
        var outcome: String
        var error: String?
        var isNew: Bool
    }

    package func stored() throws -> [UInt8] {
        var stored = Stored(room: room, nick: nick.string, outcome: "joined", isNew: isNew)
        switch outcome {
        case .joined: break
        case .refused(let error):
            stored.outcome = "refused"
            stored.error = error.element.serialized(defaultNamespace: Namespaces.client)
        case .timedOut: stored.outcome = "timed-out"
        case .abandoned: stored.outcome = "abandoned"
        }
        return try [UInt8](JSONEncoder().encode(stored))
    }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        let stored = try JSONDecoder().decode(Stored.self, from: Data(bytes))
        let error = try stored.error.map { text in
            try StanzaError(Element(parsing: text, defaultNamespace: Namespaces.client))
                ?? StanzaError(.undefinedCondition)
        }
        let outcome: Outcome =
            switch stored.outcome {
            case "joined": .joined
            case "timed-out": .timedOut
            case "abandoned": .abandoned
            default: .refused(error ?? StanzaError(.undefinedCondition))
            }
        self.init(
            account: try Account.serving(environment), room: stored.room, nick: ForeignText(stored.nick),
            outcome: outcome, isNew: stored.isNew)
    }
}

/// Event of a room, for the running program; see ``/XMPPAccount/Account/events(of:dropped:)``.
///
/// ```swift
/// for await event in account.events(of: RoomEvent.self) {
///     if case .occupant(let occupant) = event.change { print("\(occupant.nick) is in \(event.room)") }
/// }
/// ```
public struct RoomEvent: ModuleEvent {
    /// The change.
    public enum Change: Hashable, Sendable {
        /// The account is in the room, for the first time or again.
        case joined(nick: ForeignText, isNew: Bool)
        /// The room does not let the account in. It is tried again when ``Room/state`` is `wanted`.
        case refused(StanzaError)
        /// The room has not answered in time. It is tried again when ``Room/state`` is `wanted`.
        case timedOut
        /// The program left the room, or joined again, before the room let it in.
        case abandoned
        /// The account is not in the room any more. It tries to come back when ``Room/state`` is `wanted`.
        case left(RoomDeparture)
        /// The account has another nickname, by its own will or by that of the service.
        case nickChanged(from: ForeignText, to: ForeignText)
        /// The account cannot have the nickname that it asked for.
        case nickRefused(ForeignText, StanzaError)
        /// An occupant joined, or has another role, affiliation or address.
        case occupant(RoomOccupant)
        /// Another occupant changed the nickname.
        case occupantRenamed(from: ForeignText, to: ForeignText)
        /// Another occupant left or was removed.
        case occupantLeft(nick: ForeignText, RoomDeparture)
        /// The subject was set, or removed.
        case subject(ForeignText?, by: JID)
        /// The room's configuration changed; the status codes say what (XEP-0045 section 10.2.1).
        case configurationChanged(Set<Int>)
        /// A new room refused the service's defaults (XEP-0045 section 10.1.2).
        case setupFailed(StanzaError?)
        /// The account was invited; see ``Rooms/invitations(in:)``.
        case invited(RoomInvitation)
        /// An invited user declined.
        case declined(by: JID?, reason: ForeignText?)
        /// The result of a check; see ``Rooms/check(_:in:)``.
        case checked(RoomCheck)
        /// The room did not take a message.
        case messageRefused(id: ForeignText, StanzaError)
        /// The room did not reflect a message. Whether it was accepted is unknown.
        case messageUnconfirmed(id: ForeignText)
    }

    /// The room's bare address.
    public let room: JID
    /// The change.
    public let change: Change
    /// The ticket of the attempt to join, or of the check.
    let ticket: String?

    init(_ room: JID, _ change: Change, ticket: String? = nil) {
        self.room = room
        self.change = change
        self.ticket = ticket
    }
}

/// Whether the account is still in a room.
///
/// ```swift
/// if try await account.rooms.check(council) == .unanswered { print("no answer") }
/// ```
///
/// Source: XEP-0410 section 3.2.
public enum RoomCheck: Hashable, Sendable {
    /// It is.
    case joined
    /// It was not, and asks to be let in again.
    case rejoining(StanzaError)
    /// There was no answer. The check is repeated when the room has been silent for the same time again.
    case unanswered
}
