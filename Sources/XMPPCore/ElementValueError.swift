/// An error of an attribute, text or path without a value of the requested type.
///
/// ```swift
/// do {
///     let code = try status.value(of: "code", as: UInt8.self)
/// } catch {
///     print(error)    // Write a whole number from 0 to 255 into 'code' of <status xmlns='…'/>, not 'many'.
/// }
/// ```
public struct ElementValueError: CodedError, Hashable {
    /// Place of a value in an element.
    package enum Place: Hashable, Sendable {
        /// The attribute of this name.
        case attribute(ForeignText)
        /// The element's own text.
        case text
        /// At the path with this text.
        case path(ForeignText)
    }

    /// The maximum number of bytes of a name or value in an error.
    package static let maximumTextLength = 64

    /// The kind of error.
    public let code: ErrorCode<ElementValueError>
    /// The element's local name, cut to `maximumTextLength`.
    package let element: ForeignText
    /// The element's namespace, cut to `maximumTextLength`.
    package let namespace: ForeignText
    /// The place in the element.
    package let place: Place
    /// Text at that place, cut to `maximumTextLength`; nil when there is none.
    package let value: ForeignText?
    /// The expected text: `a whole number from 0 to 255`.
    package let expectation: String

    init(_ element: Element, _ place: Place, _ value: ForeignText?, _ type: any ForeignValue.Type) {
        code = value == nil ? .missing : .malformed
        self.element = element.name.prefix(bytes: Self.maximumTextLength)
        namespace = element.namespace.prefix(bytes: Self.maximumTextLength)
        self.place = place
        self.value = value?.prefix(bytes: Self.maximumTextLength)
        expectation = XMPPCore.expectation(of: type)
    }

    /// The expected text, its place, and the text that is there.
    public var message: String {
        let whole: VisibleText = "<\(element) xmlns='\(namespace)'/>"
        let end: VisibleText = value.map { ", not '\($0)'." } ?? "."
        let text: VisibleText =
            switch place {
            case .attribute(let name): "Write \(expectation) into '\(name)' of \(whole)\(end)"
            case .text: "Write \(expectation) as the text of \(whole)\(end)"
            case .path(let path): "Write \(expectation) at '\(path)' of \(whole)\(end)"
            }
        return text.description
    }

    /// The stanza error to answer a request with (RFC 6120 section 8.3.3.1).
    package var stanzaError: StanzaError { StanzaError(.badRequest, text: message) }
}

// MARK: - Codes

extension ErrorCode where Failure == ElementValueError {
    /// There is no such attribute, or nothing at the path.
    public static var missing: Self { Self(rawValue: "missing") }
    /// The text is no value of the type.
    public static var malformed: Self { Self(rawValue: "malformed") }
}
