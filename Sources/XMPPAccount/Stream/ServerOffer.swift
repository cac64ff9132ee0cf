import XMPPCore
import XMPPTransport

/// The offer of a server on the protected stream before the login: the mechanisms of both SASL profiles, and what can
/// be done in the same round trip.
struct ServerOffer: Hashable, Sendable {
    /// The extensible profile (XEP-0388).
    struct Extensible: Hashable, Sendable {
        var login: LoginOffer
        /// The features that Bind 2 can turn on; nil when there is no Bind 2 (XEP-0386).
        var bindFeatures: Set<ForeignText>?
        /// Whether a session can be resumed in the same round trip (XEP-0198 section 9).
        var canResume: Bool
        /// The mechanisms for which tokens are given (XEP-0484).
        var tokenMechanisms: [ForeignText]
    }

    /// The profile of RFC 6120 section 6.
    var classic: LoginOffer
    var extensible: Extensible?

    init(_ features: Element) {
        let bindings =
            features.child("sasl-channel-binding", Namespaces.saslChannelBinding)?.elements.compactMap {
                $0["type"]
            } ?? []
        classic = LoginOffer(
            mechanisms: Self.texts(
                features.child("mechanisms", Namespaces.sasl), "mechanism", Namespaces.sasl),
            bindingTypes: bindings)
        extensible = features.child("authentication", Namespaces.sasl2).map {
            Self.extensible($0, bindings: bindings)
        }
    }

    private static func extensible(_ offer: Element, bindings: [ForeignText]) -> Extensible {
        let inline = offer.child("inline", Namespaces.sasl2)
        let bind = inline?.child("bind", Namespaces.bind2)
        let features = bind.map { bind in
            // The specification of stream management shows the features without <inline/> around them.
            let list = bind.child("inline", Namespaces.bind2) ?? bind
            return Set(list.elements.filter { $0.name == "feature" }.compactMap { $0["var"] })
        }
        return Extensible(
            login: LoginOffer(
                mechanisms: texts(offer, "mechanism", Namespaces.sasl2), bindingTypes: bindings),
            bindFeatures: features, canResume: inline?.child("sm", Namespaces.sm) != nil,
            tokenMechanisms: texts(inline?.child("fast", Namespaces.fast), "mechanism", Namespaces.fast))
    }

    private static func texts(_ parent: Element?, _ name: String, _ namespace: String) -> [ForeignText] {
        parent?.children(name, namespace).map(\.text) ?? []
    }

    // MARK: Stored form

    /// Features longer than this, in bytes, are not remembered.
    private static let storedLimit = 16 * 1024

    /// The part of `<features/>` that an offer is read from; nil when it is too long to be kept.
    static func stored(_ features: Element) -> String? {
        var kept = Element("features", namespace: Namespaces.stream)
        let namespaces = [Namespaces.sasl, Namespaces.sasl2, Namespaces.saslChannelBinding]
        for child in features.elements where namespaces.contains(child.namespace) { kept.append(child) }
        let text = kept.serialized()
        return text.utf8.count <= storedLimit ? text : nil
    }

    /// Reads ``stored(_:)``; nil when it is damaged.
    init?(stored text: String) {
        guard let features = try? Element(parsing: text) else { return nil }
        self.init(features)
    }
}
