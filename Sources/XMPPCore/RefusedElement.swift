/// An element that the parser left out because it cannot be read: a whole first-level element, or one member of a list in it.
///
/// The stream continues after it. Its known parts are enough to count it, to answer it and to report it.
///
/// ```swift
/// for case .refused(let refused) in try parser.parse(bytes) {
///     print(refused)
///     if let reply = refused.reply { send(reply) }
/// }
/// ```
///
/// Source: RFC 6120 section 8.2.3, XEP-0198 section 4.
public struct RefusedElement: Hashable, Sendable, CustomStringConvertible {
    /// The first-level element: name, namespace, and those of its attributes `from`, `to`, `id` and `type` that can be read.
    /// The name is empty when even that cannot be read.
    public let root: Element
    /// Those of `from`, `to`, `id` and `type` that are there and cannot be read: malformed, repeated, or over 4096 bytes.
    package let unreadable: Set<ForeignText>
    /// The list whose member was left out, without its children; nil when the whole first-level element was.
    package let list: Element?
    /// Bytes of what was left out, markup included.
    package let byteCount: Int
    /// The error.
    public let reason: StreamParserError

    init(root: Root, list: Element?, byteCount: Int, reason: StreamParserError) {
        self.root = root.element
        unreadable = root.unreadable
        self.list = list
        self.byteCount = byteCount
        self.reason = reason
    }

    /// The answer that RFC 6120 asks for. Nil where there must be none.
    ///
    /// Only a request is answered, and only when its sender and its `id` can be read: an answer to another address would be
    /// worse than none. The condition is `policy-violation` for what exceeds a limit of this side (section 8.3.3.12), and
    /// `bad-request` for XML that cannot be processed (8.3.3.1).
    public var reply: Element? {
        guard list == nil, unreadable.isEmpty, root["from"].map({ (try? JID(received: $0)) != nil }) ?? true
        else {
            return nil
        }
        let condition: OpenName<StanzaError> = reason.code == .limitExceeded ? .policyViolation : .badRequest
        return StanzaFormatError.reply(to: root, StanzaError(condition, text: reason.message))
    }

    /// The element in one line: what was left out, its size, and the error.
    public var description: String {
        let what = list.map { "a member of <\($0.name)/> in <\(root.name)/>" } ?? "<\(root.name)/>"
        return "\(what) of \(byteCount) bytes cannot be read and is left out: \(reason.message)"
    }

    /// The start tag of a first-level element, as far as it can be read.
    struct Root {
        var element: Element
        var unreadable: Set<ForeignText> = []

        /// The attributes that address a stanza.
        static let attributes: [ForeignText] = ["from", "id", "to", "type"]
        /// Bytes of such an attribute. An address has 3071 at most (RFC 7622 section 3.1).
        static let attributeBytes = 4096

        init(_ element: Element, unreadable: Set<ForeignText>) {
            (self.element, self.unreadable) = (element, unreadable)
        }

        /// Makes the root from an element that libxml2 has started to read.
        init(of whole: Element) {
            element = Element(name: whole.name, namespace: whole.namespace, attributes: [], children: [])
            for attribute in whole.attributes
            where attribute.namespace == nil && Self.attributes.contains(attribute.name) {
                if attribute.value.utf8.count <= Self.attributeBytes {
                    element.attributes.append(attribute)
                } else {
                    unreadable.insert(attribute.name)
                }
            }
        }
    }
}

extension StreamParser.Event {
    /// Whether it is counted by stream management (XEP-0198 section 4).
    package var isStanza: Bool {
        switch self {
        case .element(let element): Stanza.isStanza(element)
        case .refused(let refused): refused.list == nil && Stanza.isStanza(refused.root)
        case .opened, .closed: false
        }
    }
}
