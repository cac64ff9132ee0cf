/// An XML element as a value: expanded name, attributes, children. Prefixes are gone, namespaces stay.
///
/// ```swift
/// let ping = Element("ping", namespace: Namespaces.ping)
/// let item = Element("item", namespace: "jabber:iq:roster", attributes: ["jid": "a@b", "name": nil])
/// item["jid"]      // "a@b"
/// item["name"]     // nil: an attribute given as nil is left out
/// ```
///
/// Equality compares names, namespaces, attributes and children in their order. A value that came from
/// `StreamParser` never holds two text nodes side by side or an empty one; what you build yourself should not
/// either, since those two do not survive being written and read again.
///
/// Source: RFC 6120 section 11, Namespaces in XML 1.0.
public struct Element: Hashable, Sendable {
    /// A child of an element.
    ///
    /// ```swift
    /// for case .element(let child) in element.children { print(child.name) }
    /// ```
    public enum Node: Hashable, Sendable {
        /// A child element.
        case element(Element)
        /// A run of character data, entities already replaced.
        case text(ForeignText)
    }

    /// An attribute. Namespace declarations are not attributes here: they follow from `Element.namespace`.
    ///
    /// ```swift
    /// let language = Element.Attribute("xml:lang", value: "en")
    /// ```
    public struct Attribute: Hashable, Sendable {
        /// Local name.
        public var name: ForeignText
        /// Namespace name, nil for an attribute without prefix, which is the usual kind.
        public var namespace: ForeignText?
        /// Value, entities already replaced.
        public var value: ForeignText

        /// Makes an attribute.
        ///
        /// - Parameters:
        ///   - name: Local name. A name that starts with `xml:` and no namespace means the XML namespace.
        ///   - namespace: Namespace name, nil for none.
        ///   - value: Value, unescaped.
        public init(
            _ name: some TextConvertible, namespace: (any TextConvertible)? = nil, value: some TextConvertible
        ) {
            let name = name.foreignText
            let expanded = namespace.map { (name, $0.foreignText) } ?? Attribute.expanded(name)
            self.init(rawName: expanded.0, namespace: expanded.1, value: value.foreignText)
        }

        init(rawName: ForeignText, namespace: ForeignText?, value: ForeignText) {
            self.name = rawName
            self.namespace = namespace
            self.value = value
        }

        /// `xml` is the one prefix that is bound everywhere (Namespaces in XML 1.0, section 3).
        static func expanded(_ name: ForeignText, _ namespace: String? = nil) -> (ForeignText, ForeignText?) {
            if let namespace { return (name, ForeignText(namespace)) }
            guard name.utf8.starts(with: "xml:".utf8) else { return (name, nil) }
            return (ForeignText(decoding: name.utf8.dropFirst(4)), ForeignText(Namespaces.xml))
        }
    }

    /// Local name.
    public var name: ForeignText
    /// Namespace name, empty for none.
    public var namespace: ForeignText
    /// Attributes in document order.
    public var attributes: [Attribute]
    /// Children in document order.
    public var children: [Node]

    /// Makes an element.
    ///
    /// - Parameters:
    ///   - name: Local name.
    ///   - namespace: Namespace name, empty for none.
    ///   - attributes: Name and value; a nil value leaves the attribute out. `xml:lang` may be written so.
    ///   - text: Character data in front of the children; nil or empty for none.
    ///   - children: Child elements.
    public init(
        _ name: some TextConvertible, namespace: some TextConvertible,
        attributes: KeyValuePairs<
            String,
            (any TextConvertible)?
        > = [:], text: (any TextConvertible)? = nil, children: [Element] = []
    ) {
        self.name = name.foreignText
        self.namespace = namespace.foreignText
        self.attributes = attributes.compactMap { name, value in
            value.map { Attribute(name, value: $0.foreignText) }
        }
        self.children = children.map(Node.element)
        if let text = text?.foreignText, !text.isEmpty { self.children.insert(.text(text), at: 0) }
    }

    /// Makes an element from complete parts.
    ///
    /// - Parameters:
    ///   - name: Local name.
    ///   - namespace: Namespace name, empty for none.
    ///   - attributes: Attributes in order.
    ///   - children: Nodes in order.
    package init(name: ForeignText, namespace: ForeignText, attributes: [Attribute], children: [Node]) {
        self.name = name
        self.namespace = namespace
        self.attributes = attributes
        self.children = children
    }
}
