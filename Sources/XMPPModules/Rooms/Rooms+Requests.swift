public import Handlers
public import XMPPAccount
public import XMPPCore

// What owners, admins and moderators ask: as stored requests, or by waiting for the answer.
extension Rooms {
    /// Asks something of a room; the answer calls a stored handler, in whatever process is there by then.
    ///
    /// The account need not be in the room.
    ///
    /// - Parameters:
    ///   - request: What is asked.
    ///   - room: The room's bare address.
    ///   - then: Called with the answer; ``RoomRequest`` reads what it carries.
    ///   - orElse: Called with the reason when the answer can never come.
    ///   - step: The step that it commits with.
    /// - Returns: The row of the handler that waits.
    /// - Throws: ``/XMPPAccount/AccountError`` `outboxFull`; ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func send(
        _ request: RoomRequest, to room: JID, then: Durable<IQReply>, orElse: Durable<Invalidation>? = nil,
        in step: borrowing Step
    ) throws -> HandlerID {
        try account.send(request.iq(to: room), then: then, orElse: orElse, in: step)
    }

    /// Asks something of a room and waits here for the answer's payload.
    ///
    /// - Parameters:
    ///   - request: What is asked.
    ///   - room: The room's bare address.
    /// - Returns: What the answer carries; nil for nothing.
    /// - Throws: `StanzaError` when the room refuses, and what ``/XMPPAccount/Account/request(_:timeout:)`` throws.
    @discardableResult
    public func request(_ request: RoomRequest, of room: JID) async throws -> Element? {
        try await account.request(request.iq(to: room)).payload
    }

    /// The form with which a room is set up.
    ///
    /// - Parameter room: The room's bare address.
    /// - Returns: The form, to be changed and given to ``configure(_:_:)``.
    /// - Throws: As ``request(_:of:)``; `StanzaError` `undefinedCondition` when the answer holds no form.
    public func configuration(of room: JID) async throws -> DataForm {
        guard let form = RoomRequest.configuration(in: try await request(.configuration, of: room)) else {
            throw StanzaError(.undefinedCondition, text: "the answer holds no form")
        }
        return form
    }

    /// Sets a room up.
    ///
    /// - Parameters:
    ///   - room: The room's bare address.
    ///   - form: The fields that are to change; the service keeps the others.
    /// - Throws: As ``request(_:of:)``.
    public func configure(_ room: JID, _ form: DataForm) async throws {
        try await request(.configure(form), of: room)
    }

    /// Who has an affiliation.
    ///
    /// - Parameters:
    ///   - affiliation: Which one.
    ///   - room: The room's bare address.
    /// - Returns: The users, as far as the account may see them.
    /// - Throws: As ``request(_:of:)``.
    public func users(with affiliation: RoomAffiliation, in room: JID) async throws -> [RoomRequest.Entry] {
        RoomRequest.entries(in: try await request(.affiliations(affiliation), of: room))
    }
}
