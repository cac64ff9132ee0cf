import XMPPCore

extension Message {
    /// Reads a message that was forwarded. An absent address is the account's, as in any stanza on its stream.
    ///
    /// - Parameters:
    ///   - element: What `<forwarded/>` holds.
    ///   - own: The account's bare address, if its own server has forwarded the message; nil for a room.
    ///
    /// Source: RFC 6120 sections 8.1.1.1 and 8.1.2.1.
    init(forwarded element: Element, of own: JID?) throws(StanzaFormatError) {
        var element = element
        if let own {
            for name in ["from", "to"] where element[name] == nil { element[name] = own.foreignText }
        }
        try self.init(element: element)
    }
}
