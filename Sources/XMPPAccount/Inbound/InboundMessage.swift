import XMPPCore

/// A message on its way through an inbound step, taken out of what it came in.
struct InboundMessage: Sendable {
    var message: Message
    var source = MessageReceived.Source.direct
    /// While it is being delivered.
    var delivery: Deferral?
    /// Whether it was sent from here.
    var isEcho = false
    /// Whether it is from the account's own nickname in a room.
    var isFromOwnNickname = false
    /// The account's own bare address; nil until it is given to modules and handlers.
    var own: JID?

    /// The archive that keeps it: the own account's, or the room's through which it came.
    func archive(of own: JID) -> JID {
        if case .archive(let archive, _, _) = source { return archive }
        return message.type == .groupchat ? message.from?.bare ?? own.bare : own.bare
    }

    /// The id under which the archive keeps it, if it does.
    func archiveID(of own: JID) -> ForeignText? {
        if case .archive(_, let id, _) = source { return id }
        return message.stanzaID(by: archive(of: own)).flatMap(\.token)
    }
}
