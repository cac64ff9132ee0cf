/// An XMPP address: `localpart@domainpart/resourcepart`, prepared and compared as RFC 7622 says.
///
/// ```swift
/// let jid = try JID("Juliet@Capulet.example/balcony")
/// jid.local        // "juliet"
/// jid.resource     // "balcony"
/// jid.bare         // juliet@capulet.example
/// ```
///
/// The text is split at its first `/`, then the text before it at its first `@`. So
/// `evil.org/x@victim.com` is the domain `evil.org` with the resource `x@victim.com`. A part that cannot be
/// prepared is an error; no other JID is ever put in its place.
///
/// What is prepared (RFC 8264, RFC 8265, RFC 5891):
/// - localpart: usual width, lower case, NFC; letters, digits and marks of any script and ASCII without
///   `" & ' / : < > @` and space. Symbols, other spaces, control, format, private-use and compatibility characters
///   are refused.
/// - domainpart: the same with `。` as `.` and one trailing dot removed; labels of letters, digits, `-` and `_`, at
///   most 63 octets each as DNS writes them. An A-label (`xn--…`) becomes the U-label that it encodes. Or an IPv6
///   address in brackets.
/// - resourcepart: Unicode spaces to the ASCII space, NFC; control and private-use characters, separators of lines and
///   noncharacters are refused.
/// - In the first two, characters that are valid only beside certain letters are refused elsewhere (RFC 5892 appendix A), as are
///   letters that run to the left mixed with others (RFC 5893).
///
/// Where this is more lenient than those documents: code points that this version of Unicode does not know pass
/// everywhere, and invisible characters in resources, since emoji are made of them; the zero width non-joiner passes
/// between any two letters of scripts that join. That way a peer with newer tables is still understood.
/// The library reads the addresses that a server sends more leniently still: `♥nurse@example.org` is the address of a contact, if the
/// server says so, although no program can make it.
///
/// Source: RFC 7622 section 3.
public struct JID: Hashable, Sendable {
    /// The localpart, lower case; nil for a server's own address.
    public let local: ForeignText?
    /// The domainpart, lower case, without a trailing dot.
    public let domain: ForeignText
    /// The resourcepart, nil in a bare JID. Case counts.
    public let resource: ForeignText?

    /// The longest a part may be, in octets of UTF-8 (RFC 7622 section 3.1).
    package static let maximumPartLength = 1023

    /// Reads a JID from its text form.
    ///
    /// - Parameter text: `domain`, `local@domain`, `domain/resource` or `local@domain/resource`.
    /// - Throws: `JIDError` when a part is empty, too long, or holds what its profile forbids.
    public init(_ text: some TextConvertible) throws(JIDError) {
        let parts = Parts(text.foreignText)
        self.local = if let local = parts.local { try JIDPreparation.local(local) } else { nil }
        self.domain = try JIDPreparation.domain(parts.domain)
        self.resource =
            if let resource = parts.resource { try JIDPreparation.resource(resource) } else { nil }
    }

    /// The parts of a text, not prepared.
    struct Parts {
        let local: Substring?
        let domain: Substring
        let resource: Substring?

        init(_ text: ForeignText) {
            let text = text.string
            let slash = text.utf8.firstIndex(of: UInt8(ascii: "/"))
            let bare = text[..<(slash ?? text.endIndex)]
            let at = bare.utf8.firstIndex(of: UInt8(ascii: "@"))
            local = at.map { bare[..<$0] }
            domain = at.map { bare[bare.utf8.index(after: $0)...] } ?? bare
            resource = slash.map { text[text.utf8.index(after: $0)...] }
        }
    }

    /// Makes a JID from its parts, each prepared.
    ///
    /// - Parameters:
    ///   - local: 1 to 1023 octets of UTF-8, or nil for none.
    ///   - domain: A host name, an IPv4 address, or an IPv6 address in brackets.
    ///   - resource: 1 to 1023 octets of UTF-8, or nil for none.
    /// - Throws: `JIDError` as for the text form.
    public init(
        local: (any TextConvertible)? = nil, domain: any TextConvertible,
        resource: (any TextConvertible)? = nil
    ) throws(JIDError) {
        self.local = if let local { try JIDPreparation.local(local.foreignText.string[...]) } else { nil }
        self.domain = try JIDPreparation.domain(domain.foreignText.string[...])
        self.resource =
            if let resource { try JIDPreparation.resource(resource.foreignText.string[...]) } else { nil }
    }

    init(preparedLocal: ForeignText?, domain: ForeignText, resource: ForeignText?) {
        self.local = preparedLocal
        self.domain = domain
        self.resource = resource
    }

    /// This address without its resource.
    public var bare: JID { JID(preparedLocal: local, domain: domain, resource: nil) }
    /// Whether there is no resource.
    package var isBare: Bool { resource == nil }
    /// Whether there is a resource.
    package var isFull: Bool { resource != nil }
    /// The address of the domain alone, as a server or service has it.
    package var domainJID: JID { JID(preparedLocal: nil, domain: domain, resource: nil) }

    /// This address with another resource.
    ///
    /// - Parameter resource: 1 to 1023 octets of UTF-8.
    /// - Returns: The full address.
    /// - Throws: `JIDError` when the resource is empty, too long or holds a forbidden character.
    public func with(resource: some TextConvertible) throws(JIDError) -> JID {
        JID(
            preparedLocal: local, domain: domain,
            resource: try JIDPreparation.resource(resource.foreignText.string[...]))
    }
}

extension JID: TextConvertible {
    /// The text form.
    public var foreignText: ForeignText { ForeignText(description) }
}

extension JID: CustomStringConvertible {
    /// The text form; reading it again gives an equal JID.
    public var description: String {
        var text = ""
        if let local { text += local.string + "@" }
        text += domain.string
        if let resource { text += "/" + resource.string }
        return text
    }
}

extension JID: CodedAsOneValue, Codable {
    package init(coded: String) throws { try self.init(received: coded) }
    package var coded: String { description }
}
