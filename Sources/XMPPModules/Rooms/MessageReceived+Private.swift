public import Handlers
public import XMPPAccount
public import XMPPCore

extension MessageReceived {
    /// Returns the occupant of a room with whom this private message was exchanged (XEP-0045 section 7.5).
    ///
    /// ```swift
    /// if let occupant = try call.context.privatePeer(in: call.step) { … }  // where an answer goes
    /// ```
    ///
    /// - Parameter step: The step to read in.
    /// - Returns: The address with the nickname, also of a copy of what another client of the account sent. Nil for what was said
    ///   to a whole room, and for messages outside of rooms. Any sender can claim to be an occupant, of a room by the sender's
    ///   own address.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    public func privatePeer(in step: borrowing Step) throws -> JID? {
        guard message.type != .groupchat, message.type != .error,
            let peer = isOutgoing ? message.to : message.from, peer.resource != nil
        else { return nil }
        if message.element.child("x", Namespaces.mucUser)?.elements.isEmpty == true { return peer }
        return try account.knownRoom(peer, in: step) == nil ? nil : peer
    }
}
