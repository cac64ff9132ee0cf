/// An error of an element that is not a valid IQ, message or presence.
///
/// ```swift
/// do {
///     _ = try Stanza(element)
/// } catch {
///     logger.error("left out an element: \(error)")
/// }
/// ```
public struct StanzaFormatError: DetailedError, CodedError, Hashable {
    /// The kind of error.
    public let code: ErrorCode<StanzaFormatError>
    /// A sentence that says what to do.
    public let message: String
    private let addressError: JIDError?

    init(_ code: Code, _ message: String, cause: JIDError? = nil) {
        self.code = code
        self.message = message
        addressError = cause
    }

    /// The ``JIDError`` of an address that is no JID.
    package var storedCause: (any Error)? { addressError }

    /// The message, with its cause.
    package var details: String { message + (addressError.map { " \($0)" } ?? "") }

    /// The stanza error to answer with (RFC 6120 sections 8.2.3 and 8.3.3.8).
    package var stanzaError: StanzaError {
        StanzaError(code == .malformedAddress ? .jidMalformed : .badRequest, text: message)
    }

    /// Returns the answer that RFC 6120 requires; nil if there must be none.
    ///
    /// Only a malformed IQ that is no result and no error is answered; addresses are swapped as they are.
    ///
    /// - Parameter element: The element that could not be read.
    /// - Returns: An iq of type error.
    package func reply(to element: Element) -> Element? { Self.reply(to: element, stanzaError) }

    /// An error in answer to an IQ that is no result and no error; nil for everything else.
    static func reply(to element: Element, _ error: StanzaError) -> Element? {
        guard element.name == "iq", Namespaces.isContent(element.namespace) else { return nil }
        // An empty id names no request, and a stanza of this side that has one could not be read.
        guard let id = element["id"], !id.isEmpty, element["type"] != "result", element["type"] != "error"
        else { return nil }
        var reply = Element(
            "iq", namespace: element.namespace,
            attributes: ["type": "error", "id": id, "to": element["from"], "from": element["to"]])
        reply.append(error.element(in: element.namespace))
        return reply
    }
}

// MARK: - Codes

extension ErrorCode where Failure == StanzaFormatError {
    /// The element has another name or namespace.
    package static var wrongElement: Self { Self(rawValue: "wrongElement") }
    /// An IQ has no `id`.
    package static var missingID: Self { Self(rawValue: "missingID") }
    /// `type` is missing where it is required, or has a value the RFC does not know.
    package static var unknownType: Self { Self(rawValue: "unknownType") }
    /// `to` or `from` is no JID.
    package static var malformedAddress: Self { Self(rawValue: "malformedAddress") }
    /// A request has not exactly one child element, or a result more than one.
    package static var wrongChildCount: Self { Self(rawValue: "wrongChildCount") }
}
