/// Writes elements as XML.
///
/// Two forms. **In a stream**, the header has declared the content namespace as default and the prefix `stream`: a
/// stanza carries no `xmlns` of its own, and `stream:features` keeps its prefix. **Standalone**, every namespace is
/// declared where it is first needed.
///
/// What is written can always be read: reading it gives an equal element. Characters that XML 1.0 cannot hold at
/// all (control characters but tab, line feed and carriage return, and U+FFFE, U+FFFF) are written as U+FFFD, and
/// a character that no name may hold as `_`. They are replaced, not refused, because one such character in a
/// message must neither end the stream for every other stanza nor throw in the middle of a transaction; U+FFFD
/// stays visible to readers of the text.
///
/// ```swift
/// let bytes = Serializer().bytes(Message(to: peer, body: "Good day").element)
/// ```
///
/// Source: XML 1.0 sections 2.2 and 2.4, Namespaces in XML 1.0, RFC 6120 section 4.8.
package struct Serializer: Sendable {
    /// The namespace that needs no declaration.
    package let contentNamespace: ForeignText
    private let hasStreamPrefix: Bool

    /// Makes a serializer for a stream.
    ///
    /// - Parameter contentNamespace: The default namespace that the stream header declares.
    package init(contentNamespace: any TextConvertible = Namespaces.client) {
        self.contentNamespace = contentNamespace.foreignText
        hasStreamPrefix = true
    }

    /// Makes a serializer for standalone elements.
    ///
    /// - Parameter defaultNamespace: The default namespace at their place, empty for none.
    package init(standaloneIn defaultNamespace: any TextConvertible) {
        contentNamespace = defaultNamespace.foreignText
        hasStreamPrefix = false
    }

    /// Returns the bytes of an element.
    ///
    /// - Parameter element: The element.
    /// - Returns: UTF-8.
    package func bytes(_ element: Element) -> [UInt8] {
        var bytes: [UInt8] = []
        append(element, to: &bytes)
        return bytes
    }

    /// Appends an element to bytes that are already there.
    ///
    /// - Parameters:
    ///   - element: The element.
    ///   - bytes: What it is appended to, as UTF-8.
    package func append(_ element: Element, to bytes: inout [UInt8]) {
        append(element, inside: contentNamespace, to: &bytes)
    }

    // MARK: The stream

    /// Returns the XML declaration and the stream header (RFC 6120 section 4.7).
    ///
    /// - Parameters:
    ///   - to: The domain that the stream goes to, or a client's JID in a server's header.
    ///   - from: The sender, nil to say nothing. A client names itself only once TLS protects it.
    ///   - id: The stream id, which only the receiving side gives.
    ///   - language: The default language of what people will read.
    ///   - contentNamespace: The default namespace.
    /// - Returns: The bytes up to the end of the start tag, which stays open.
    package static func streamHeader(
        to: (any TextConvertible)?, from: (any TextConvertible)? = nil, id: (any TextConvertible)? = nil,
        language: (any TextConvertible)? = nil, contentNamespace: any TextConvertible = Namespaces.client
    ) -> [UInt8] {
        var bytes = Array("<?xml version='1.0'?><stream:stream xmlns='".utf8)
        Escaping.append(attribute: contentNamespace.foreignText, to: &bytes)
        bytes += "' xmlns:stream='\(Namespaces.stream)' version='1.0'".utf8
        for (name, value) in [("to", to), ("from", from), ("id", id), ("xml:lang", language)] {
            guard let value else { continue }
            bytes += " \(name)='".utf8
            Escaping.append(attribute: value.foreignText, to: &bytes)
            bytes.append(UInt8(ascii: "'"))
        }
        bytes.append(UInt8(ascii: ">"))
        return bytes
    }

    /// The end of the stream. It also ends a resumable session (XEP-0198 section 5).
    package static let streamEnd: [UInt8] = Array("</stream:stream>".utf8)

    // MARK: Elements

    private func append(_ element: Element, inside outer: ForeignText, to bytes: inout [UInt8]) {
        let prefix = prefix(of: element.namespace)
        // Nothing may be in the namespace of declarations (Namespaces in XML 1.0, section 3): none is taken instead.
        let namespace = element.namespace == Namespaces.xmlns ? "" : element.namespace
        let inner = prefix == nil ? namespace : outer
        bytes.append(UInt8(ascii: "<"))
        appendName(element.name, prefix: prefix, to: &bytes)
        if inner != outer {
            bytes += " xmlns='".utf8
            Escaping.append(attribute: inner, to: &bytes)
            bytes.append(UInt8(ascii: "'"))
        }
        append(element.attributes, to: &bytes)
        if isEmpty(element.children) {
            bytes += "/>".utf8
            return
        }
        bytes.append(UInt8(ascii: ">"))
        append(element.children, inside: inner, to: &bytes)
        bytes += "</".utf8
        appendName(element.name, prefix: prefix, to: &bytes)
        bytes.append(UInt8(ascii: ">"))
    }

    private func isEmpty(_ children: [Element.Node]) -> Bool {
        children.allSatisfy { if case .text("") = $0 { true } else { false } }
    }

    private func append(_ children: [Element.Node], inside namespace: ForeignText, to bytes: inout [UInt8]) {
        for child in children {
            switch child {
            case .element(let element): append(element, inside: namespace, to: &bytes)
            case .text(let text): Escaping.append(text: text, to: &bytes)
            }
        }
    }

    private func prefix(of namespace: ForeignText) -> String? {
        if hasStreamPrefix, namespace == Namespaces.stream { return "stream" }
        return namespace == Namespaces.xml ? "xml" : nil
    }

    private func appendName(_ name: ForeignText, prefix: String?, to bytes: inout [UInt8]) {
        if let prefix { bytes += "\(prefix):".utf8 }
        Escaping.append(name: name, to: &bytes)
    }

    // MARK: Attributes

    private func append(_ attributes: [Element.Attribute], to bytes: inout [UInt8]) {
        var prefixes = 0
        for (index, attribute) in attributes.enumerated()
        where isWritable(attribute, at: index, in: attributes) {
            bytes.append(UInt8(ascii: " "))
            appendName(
                attribute.name, prefix: declare(attribute.namespace, &prefixes, to: &bytes), to: &bytes)
            bytes += "='".utf8
            Escaping.append(attribute: attribute.value, to: &bytes)
            bytes.append(UInt8(ascii: "'"))
        }
    }

    /// A repeated name would not be well-formed, so the first one counts, as it does for a query. And
    /// `xmlns` is no attribute here: the namespace of an element is `Element.namespace`.
    private func isWritable(_ attribute: Element.Attribute, at index: Int, in all: [Element.Attribute])
        -> Bool
    {
        if attribute.namespace == nil, attribute.name == "xmlns" { return false }
        if attribute.namespace == Namespaces.xmlns { return false }
        return !all[..<index].contains { $0.name == attribute.name && $0.namespace == attribute.namespace }
    }

    /// An attribute with a namespace needs a prefix, since the default namespace is not for attributes.
    private func declare(_ namespace: ForeignText?, _ count: inout Int, to bytes: inout [UInt8]) -> String? {
        guard let namespace, !namespace.isEmpty else { return nil }
        if namespace == Namespaces.xml { return "xml" }
        if hasStreamPrefix, namespace == Namespaces.stream { return "stream" }
        let prefix = "ns\(count)"
        count += 1
        bytes += "xmlns:\(prefix)='".utf8
        Escaping.append(attribute: namespace, to: &bytes)
        bytes += "' ".utf8
        return prefix
    }
}
