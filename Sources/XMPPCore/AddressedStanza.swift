/// Common parts of ``Message``, ``Presence``, ``IQ``, and ``Stanza`` for any of them.
///
/// ```swift
/// func isFromService(_ stanza: some AddressedStanza) -> Bool { stanza.from?.local == nil }
/// ```
///
/// Source: RFC 6120 section 8.1.
public protocol AddressedStanza: Hashable, Sendable {
    /// The element as it came or was built.
    var element: Element { get }
    /// The recipient. Nil in a stanza of a client means its own account; in a presence, everyone who is subscribed.
    var to: JID? { get }
    /// The sender, which a client leaves to its server. Nil in a stanza from a server means the client's own account.
    var from: JID? { get }
    /// The error of a stanza of type error, nil for the others.
    ///
    /// A stanza of that type without `<error/>` gives `undefined-condition`: what it answers has failed all the same.
    var error: StanzaError? { get }
}

/// A stanza whose attributes were read.
protocol ReadStanza: AddressedStanza {
    var address: StanzaAddress { get }
    var isError: Bool { get }
}

extension ReadStanza {
    public var to: JID? { address.to }
    public var from: JID? { address.from }

    public var error: StanzaError? {
        guard isError else { return nil }
        return element.child("error", element.namespace).flatMap { StanzaError($0) }
            ?? StanzaError(.undefinedCondition)
    }
}
