public import XMPPAccount
public import XMPPCore

/// Questions of owners, admins and moderators to a room, found as ``XMPPAccount/AccountOperation/room(_:)``.
///
/// The account need not be in the room.
///
/// ```swift
/// let bans = try await account.request(.room(council).users(with: .outcast))
/// try account.send(.room(council).setAffiliation(.outcast, of: [tybalt], reason: "Brawling"), then: Council.banned(), in: step)
/// ```
///
/// Source: XEP-0045 sections 8 to 10.
public struct RoomOperations: Sendable {
    let room: JID

    /// The form with which the room is set up. Change it and give it to ``configure(_:)``.
    ///
    /// An answer without a form is `StanzaError` `undefinedCondition`.
    public var configuration: AccountOperation<IQReply, DataForm> {
        ask(.configuration) { payload in
            guard let form = RoomRequest.configuration(in: payload) else {
                throw StanzaError(.undefinedCondition, text: "the answer holds no form")
            }
            return form
        }
    }

    /// Sets the room up.
    ///
    /// - Parameter form: The fields that are to change; the service keeps the others. A form of the kind
    ///   ``/XMPPCore/DataForm/Kind/submit`` without fields takes a new room as the service makes it; one of the kind
    ///   `cancel` keeps what is, and ends a room that is new.
    /// - Returns: The operation, to be sent or awaited.
    public func configure(_ form: DataForm) -> AccountOperation<IQReply, Void> { change(.configure(form)) }

    /// Returns the users with an affiliation, as far as the account may see them.
    ///
    /// - Parameter affiliation: Which one.
    /// - Returns: The operation, to be sent or awaited.
    public func users(with affiliation: RoomAffiliation) -> AccountOperation<IQReply, [RoomEntry]> {
        ask(.affiliations(affiliation)) { RoomRequest.entries(in: $0) }
    }

    /// Returns the occupants with a role, as far as the account may see them.
    ///
    /// - Parameter role: Which one.
    /// - Returns: The operation, to be sent or awaited.
    public func occupants(with role: RoomRole) -> AccountOperation<IQReply, [RoomEntry]> {
        ask(.roles(role)) { RoomRequest.entries(in: $0) }
    }

    /// Gives users an affiliation: `outcast` bans them, `none` takes away what they have.
    ///
    /// - Parameters:
    ///   - affiliation: Which one.
    ///   - users: Their addresses.
    ///   - reason: Why, in words for people; nil for nothing.
    /// - Returns: The operation, to be sent or awaited.
    public func setAffiliation(
        _ affiliation: RoomAffiliation, of users: [JID], reason: (any TextConvertible)? = nil
    ) -> AccountOperation<IQReply, Void> {
        change(.setAffiliation(affiliation, of: users, reason: reason?.foreignText))
    }

    /// Gives an occupant a role: `none` puts it out, `visitor` takes its voice.
    ///
    /// - Parameters:
    ///   - role: Which one.
    ///   - nick: The occupant's nickname.
    ///   - reason: Why, in words for people; nil for nothing.
    /// - Returns: The operation, to be sent or awaited.
    public func setRole(
        _ role: RoomRole, of nick: any TextConvertible, reason: (any TextConvertible)? = nil
    ) -> AccountOperation<IQReply, Void> {
        change(.setRole(role, of: nick.foreignText, reason: reason?.foreignText))
    }

    /// Ends the room for everybody.
    ///
    /// - Parameters:
    ///   - alternative: Another room to go to; nil for none.
    ///   - reason: Why, in words for people; nil for nothing.
    /// - Returns: The operation, to be sent or awaited.
    public func destroy(alternative: JID? = nil, reason: (any TextConvertible)? = nil)
        -> AccountOperation<IQReply, Void>
    {
        change(.destroy(alternative: alternative, reason: reason?.foreignText))
    }

    private func change(_ request: RoomRequest) -> AccountOperation<IQReply, Void> { ask(request) { _ in } }

    private func ask<Value>(
        _ request: RoomRequest, value: @escaping @Sendable (Element?) throws -> Value
    ) -> AccountOperation<IQReply, Value> {
        AccountOperation({ [room] _ in request.iq(to: room) }, value: value)
    }
}

extension AccountOperation {
    /// Questions to a room.
    ///
    /// - Parameter room: The room's bare address.
    /// - Returns: The operations.
    public static func room(_ room: JID) -> RoomOperations { RoomOperations(room: room) }
}

/// An entry of a room's list of users.
///
/// ```swift
/// for entry in try await account.request(.room(council).users(with: .member)) { print(entry.jid as Any) }
/// ```
public struct RoomEntry: Hashable, Sendable {
    /// The user's address; nil where the room hides it.
    public let jid: JID?
    /// The nickname, for who is in the room or has one registered.
    public let nick: ForeignText?
    /// The lasting standing; nil where the list does not say it.
    public let affiliation: RoomAffiliation?
    /// The role of the occupant. Nil if the list does not contain it.
    public let role: RoomRole?
    /// The reason, as text for people.
    public let reason: ForeignText?
}
