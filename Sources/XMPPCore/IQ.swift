/// A request or the answer to one.
///
/// ```swift
/// let request = IQ(type: .get, to: server, id: "a1", payload: Element("ping", namespace: Namespaces.ping))
/// print(request.element)                  // <iq type='get' …><ping xmlns='urn:xmpp:ping'/></iq>
/// ```
///
/// Source: RFC 6120 section 8.2.3.
public struct IQ: ReadStanza, AddressedStanza {
    /// The type of the IQ.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// A request for data.
        case get
        /// A request for a change.
        case set
        /// Answers with success.
        case result
        /// Answers with failure.
        case error

        /// Whether this kind must be answered, exactly once.
        package var isRequest: Bool { self == .get || self == .set }
    }

    /// The element as it came or was built.
    public let element: Element
    /// The type of the IQ.
    public let type: Kind
    /// The `id`, which request and answer share. Never empty in an IQ that was read.
    public let id: ForeignText
    let address: StanzaAddress
    var isError: Bool { type == .error }

    /// Reads an IQ.
    ///
    /// - Parameter element: `<iq/>` in `jabber:client`, `jabber:server` or `jabber:component:accept`.
    /// - Throws: `StanzaFormatError` when the element is no IQ, lacks an id, has an unknown type, a malformed
    ///   address, or no child (get, set). One that has more children than RFC 6120 section 8.2.3 allows is read as other
    ///   programs read it: the first one counts.
    public init(element: Element) throws(StanzaFormatError) {
        address = try StanzaAddress(element, name: "iq")
        guard let id = address.id, !id.isEmpty else {
            throw StanzaFormatError(
                .missingID, "Give the <iq/> an 'id'; its answer cannot be matched without one.")
        }
        guard let type = element["type"].flatMap({ Kind($0) }) else {
            throw StanzaFormatError(
                .unknownType,
                "Give the <iq/> the type get, set, result or error, not '\((element["type"] ?? "").prefix(bytes: 64))'."
            )
        }
        try Self.checkChildren(of: element, type: type)
        self.element = element
        self.type = type
        self.id = id
    }

    private static func checkChildren(of element: Element, type: Kind) throws(StanzaFormatError) {
        if type.isRequest, element.firstElement == nil {
            throw StanzaFormatError(
                .wrongChildCount,
                "Give the <iq/> of type \(type.rawValue) exactly one child element; it has none.")
        }
    }

    /// Makes an IQ.
    ///
    /// - Parameters:
    ///   - type: What the IQ is.
    ///   - to: The recipient, nil for the own account.
    ///   - from: The sender; a client leaves it to its server.
    ///   - id: Unique among the sender's requests, over restarts too.
    ///   - payload: The one child element. Requests need one.
    ///   - namespace: The content namespace of the stream.
    public init(
        type: Kind, to: JID? = nil, from: JID? = nil, id: any TextConvertible, payload: Element?,
        namespace: any TextConvertible = Namespaces.client
    ) {
        self.init(
            type: type, address: StanzaAddress(to: to, from: from, id: id.foreignText), id: id.foreignText,
            children: payload.map { [$0] } ?? [], namespace: namespace.foreignText)
    }

    /// Makes an IQ with a random id.
    package init(type: Kind, to: JID? = nil, payload: Element) {
        self.init(type: type, to: to, id: StanzaID.random(), payload: payload)
    }

    private init(
        type: Kind, address: StanzaAddress, id: ForeignText, children: [Element], namespace: ForeignText
    ) {
        self.type = type
        self.id = id
        self.address = address
        element = Element(
            "iq", namespace: namespace,
            attributes: [
                "type": type.rawValue, "id": id, "to": address.to?.description,
                "from": address.from?.description,
            ], children: children)
    }

    /// The child element of a request or result. The echoed request of an error, if it came along.
    public var payload: Element? {
        for case .element(let child) in element.children
        where type != .error || !child.has(name: "error", namespace: element.namespace) { return child }
        return nil
    }

    // MARK: Answers

    /// Returns the successful answer to this request; nil for a result or error, which must never be answered.
    ///
    /// ```swift
    /// let answer = request.result(payload: Element("query", namespace: Namespaces.version))
    /// ```
    ///
    /// - Parameter payload: The one child element; nil for an empty result.
    /// - Returns: The answer with the same id, from and to exchanged.
    package func result(payload: Element? = nil) -> IQ? {
        answer(.result, children: payload.map { [$0] } ?? [])
    }

    /// Returns the failed answer to this request; nil for a result or error, which must never be answered.
    ///
    /// - Parameters:
    ///   - error: What went wrong.
    ///   - echo: Whether the request's child goes back along with it.
    /// - Returns: The answer with the same id, from and to exchanged.
    package func errorReply(_ error: StanzaError, echo: Bool = false) -> IQ? {
        let echoed = echo ? payload.map { [$0] } ?? [] : []
        return answer(.error, children: echoed + [error.element(in: element.namespace)])
    }

    private func answer(_ type: Kind, children: [Element]) -> IQ? {
        guard self.type.isRequest else { return nil }
        return IQ(
            type: type, address: StanzaAddress(to: from, from: to, id: id), id: id, children: children,
            namespace: element.namespace)
    }
}
