public import XMPPCore
import XMPPTransport

/// The identities and features of an entity.
///
/// ```swift
/// let info = try await account.request(.discoInfo(of: server))
/// if info.features.contains(Namespaces.mam) { print("it has an archive") }
/// ```
///
/// Source: XEP-0030 section 3.
public struct DiscoInfo: Hashable, Sendable {
    /// An identity of an entity.
    ///
    /// ```swift
    /// let identity = DiscoInfo.Identity(category: "client", type: "bot", name: "Echo")
    /// ```
    public struct Identity: Hashable, Sendable {
        /// Category, such as `client`, `server` or `conference` (registry of XEP-0030 section 15.3).
        public var category: ForeignText
        /// Type within the category, such as `pc`, `phone` or `bot`.
        public var type: ForeignText
        /// The name for users.
        public var name: ForeignText?
        /// The language of the name.
        public var language: ForeignText?

        /// Makes an identity.
        ///
        /// - Parameters:
        ///   - category: Such as `client`.
        ///   - type: Such as `bot`.
        ///   - name: What people call it; nil for nothing.
        ///   - language: The language of the name, as a tag of BCP 47; nil for that of the stream.
        public init(
            category: any TextConvertible, type: any TextConvertible, name: (any TextConvertible)? = nil,
            language: (any TextConvertible)? = nil
        ) {
            self.category = category.foreignText
            self.type = type.foreignText
            self.name = name?.foreignText
            self.language = language?.foreignText
        }
    }

    /// The identities of the entity.
    public var identities: [Identity]
    /// The namespaces that it understands.
    public var features: Set<ForeignText>
    /// Further information, as forms (XEP-0128).
    public var forms: [DataForm]

    /// Makes an answer.
    ///
    /// - Parameters:
    ///   - identities: What it is.
    ///   - features: The namespaces that it understands.
    ///   - forms: What else it says of itself.
    package init(identities: [Identity], features: [any TextConvertible], forms: [DataForm] = []) {
        self.identities = identities
        self.features = Set(features.map(\.foreignText))
        self.forms = forms
    }

    /// Reads an answer; nil when the element is none.
    ///
    /// - Parameter element: `<query/>` in `http://jabber.org/protocol/disco#info`.
    package init?(_ element: Element) {
        guard element.has(name: "query", namespace: Namespaces.discoInfo) else { return nil }
        identities = element.children("identity", Namespaces.discoInfo).map { identity in
            Identity(
                category: identity["category"] ?? "", type: identity["type"] ?? "", name: identity["name"],
                language: identity["xml:lang"])
        }
        features = Set(element.children("feature", Namespaces.discoInfo).compactMap { $0["var"] })
        forms = element.children("x", Namespaces.dataForms).compactMap { DataForm($0) }
    }

    /// Returns the answer as XML.
    ///
    /// - Parameter node: The node that was asked for.
    /// - Returns: `<query/>`, with the features in order.
    package func element(node: (any TextConvertible)? = nil) -> Element {
        let identities = identities.map { identity in
            Element(
                "identity", namespace: Namespaces.discoInfo,
                attributes: [
                    "category": identity.category, "type": identity.type, "name": identity.name,
                    "xml:lang": identity.language,
                ])
        }
        let features = features.sorted().map {
            Element("feature", namespace: Namespaces.discoInfo, attributes: ["var": $0])
        }
        return Element(
            "query", namespace: Namespaces.discoInfo, attributes: ["node": node],
            children: identities + features + forms.map(\.element))
    }

    // MARK: Capabilities

    /// The verification string: a digest of all of it, so that it need be asked for only once (XEP-0115 section 5.1).
    ///
    /// Nil for what no honest entity sends, and what two different answers could share it by: identities or forms that
    /// are there twice, and texts with the separator in them (section 5.4, items 3.3 to 3.5), and what could be the same
    /// text cut elsewhere: features given as an identity, or as the type and the fields of a form.
    package var verification: ForeignText? {
        verification(by: "sha-1", identities.sorted(by: Self.areOrdered))
    }

    /// Returns whether a verification string of somebody's presence stands for it.
    ///
    /// Identities are in the order of their parts (XEP-0115 section 5.1, item 2). Many sort the whole texts, which differs where a part
    /// is the start of another one.
    func isVerified(by verification: ForeignText, hash: ForeignText) -> Bool {
        let byParts = identities.sorted(by: Self.areOrdered)
        let byTexts = identities.sorted { $0.text < $1.text }
        return self.verification(by: hash, byParts) == verification
            || byParts != byTexts && self.verification(by: hash, byTexts) == verification
    }

    private static func areOrdered(_ one: Identity, _ other: Identity) -> Bool {
        one.parts.lexicographicallyPrecedes(other.parts)
    }

    private func verification(by hash: ForeignText, _ identities: [Identity]) -> ForeignText? {
        let names = identities.map(\.text)
        let fields = forms.flatMap(\.fields)
        let texts = names + features + fields.flatMap { [$0.name ?? ""] + $0.values }
        let types = forms.compactMap(\.formType)
        guard Set(names).count == names.count, Set(types).count == types.count,
            !texts.contains(where: { $0.utf8.contains(UInt8(ascii: "<")) }), identities.allSatisfy(\.isPlain),
            forms.allSatisfy({ $0.formType == nil || Self.isPlain($0) })
        else { return nil }
        var parts = names + features.sorted()
        // A form without a hidden FORM_TYPE does not count (section 5.4, item 3.6).
        let counted = forms.filter { form in
            form.fields.contains { $0.name == "FORM_TYPE" && ($0.type == nil || $0.type == "hidden") }
        }
        for form in counted.sorted(by: { $0.formType ?? "" < $1.formType ?? "" }) {
            parts.append(form.formType ?? "")
            let fields = form.fields.filter { $0.name != nil && $0.name != "FORM_TYPE" }
            for field in fields.sorted(by: { $0.name ?? "" < $1.name ?? "" }) {
                parts.append(field.name ?? "")
                parts += field.values.sorted()
            }
        }
        let text = parts.map { $0.string + "<" }.joined()
        return Crypto.digest(named: hash, Array(text.utf8)).map { ForeignText(Crypto.base64($0)) }
    }

    /// The features that are no namespaces (XEP-0030's registry).
    private static let plainFeatures: Set<ForeignText> = [
        "amp", "dnssrv", "fullunicode", "gc-1.0", "ipv6", "msglog", "msgoffline", "sslc2s", "stringprep",
        "vcard-temp",
    ]

    /// Returns whether a form cannot be a row of features: it has fields, and their names are no namespaces.
    private static func isPlain(_ form: DataForm) -> Bool {
        let names = form.fields.compactMap(\.name).filter { $0 != "FORM_TYPE" }
        return !names.isEmpty
            && !names.contains { $0.utf8.contains(UInt8(ascii: ":")) || Self.plainFeatures.contains($0) }
    }
}

/// An item of an entity.
///
/// ```swift
/// for item in try await account.request(.discoItems(of: server)) { print(item.jid, item.name ?? "") }
/// ```
public struct DiscoItem: Hashable, Sendable {
    /// The address of the item.
    public var jid: JID
    /// The node at that address.
    public var node: ForeignText?
    /// The name for users.
    public var name: ForeignText?
}

extension DiscoInfo.Identity {
    fileprivate var parts: [ForeignText] { [category, type, language ?? "", name ?? ""] }

    /// Its text in a verification string (XEP-0115 section 5.1).
    fileprivate var text: ForeignText { parts.map(\.string).joined(separator: "/").foreignText }

    /// Whether it cannot be a feature: its parts do not hold what parts them, and its category is no scheme.
    fileprivate var isPlain: Bool {
        ![category, type, language ?? ""].contains { text in
            text.utf8.contains { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: ":") }
        }
    }
}
