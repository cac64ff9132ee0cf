public import XMPPCore

/// A subscription to a node.
///
/// ```swift
/// let all = try await account.request(.pubsub(.subscriptions(to: "club"), at: service))
/// let waiting = all.filter { $0.state == .pending }
/// ```
///
/// Source: XEP-0060 sections 4.2, 5.6, 6.1 and 8.8.
public struct PubSubSubscription: Hashable, Sendable {
    /// The state of a subscription. Open for states of later versions.
    public struct State: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
        public let rawValue: ForeignText
        public init(rawValue: ForeignText) { self.rawValue = rawValue }
        public var description: String { rawValue.string }

        /// There is no subscription; setting it ends one.
        public static let none = State(rawValue: "none")
        /// The node's owner has yet to approve it; no events come.
        public static let pending = State(rawValue: "pending")
        /// Events come.
        public static let subscribed = State(rawValue: "subscribed")
        /// Its options have yet to be set; events may not come before.
        public static let unconfigured = State(rawValue: "unconfigured")

        /// All states of XEP-0060, in the order of the alphabet.
        package static let defined: [State] = [.none, .pending, .subscribed, .unconfigured]
    }

    /// The node; nil where it goes without saying.
    public var node: ForeignText?
    /// The subscribed address.
    public var jid: JID
    /// The state of the subscription.
    public var state: State
    /// Id of the subscription among those of the same address and node; keep it if the service gives one.
    public var id: ForeignText?

    /// Describes a subscription, as ``PubSubOperation/setSubscriptions(_:to:)`` takes it.
    ///
    /// - Parameters:
    ///   - jid: Who is subscribed.
    ///   - state: How far it has come; `none` ends it.
    ///   - id: What tells it from others of the same address; nil where the service gives none.
    ///   - node: The node; nil where it goes without saying.
    public init(
        _ jid: JID, _ state: State, id: (any TextConvertible)? = nil, node: (any TextConvertible)? = nil
    ) {
        (self.jid, self.state, self.id, self.node) = (jid, state, id?.foreignText, node?.foreignText)
    }

    /// Reads a `<subscription/>`; nil when neither it nor the caller says address and state.
    ///
    /// - Parameters:
    ///   - node: The node when the element names none.
    ///   - jid: The subscriber when the element names none.
    ///   - state: The state when the element says none, which the schema allows (section 18.1).
    init?(_ element: Element, node: ForeignText?, jid: JID?, state: State? = nil) {
        let named = element[Wire.jid].map { try? JID($0) } ?? jid
        guard let named, let state = element[Wire.subscription] ?? state?.rawValue else { return nil }
        self.init(
            named, State(rawValue: state), id: element[Wire.subscriptionID],
            node: element[Wire.node] ?? node)
    }

    var element: Element {
        Element(
            Wire.subscription, namespace: Namespaces.pubsubOwner,
            attributes: [
                Wire.jid: jid.description, Wire.subscription: state.rawValue, Wire.subscriptionID: id,
            ])
    }
}

/// Affiliation of a user with a node.
///
/// ```swift
/// try await account.request(.pubsub(.setAffiliations([PubSubAffiliation(juliet, .publisher)], with: "club"), at: service))
/// ```
///
/// Source: XEP-0060 sections 4.1, 5.7 and 8.9.
public struct PubSubAffiliation: Hashable, Sendable {
    /// The kind of an affiliation. Open for kinds of later versions.
    public struct Kind: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
        public let rawValue: ForeignText
        public init(rawValue: ForeignText) { self.rawValue = rawValue }
        public var description: String { rawValue.string }

        /// May read where others need permission.
        public static let member = Kind(rawValue: "member")
        /// Nothing beyond what everybody may; setting it ends an affiliation.
        public static let none = Kind(rawValue: "none")
        /// May do nothing at all.
        public static let outcast = Kind(rawValue: "outcast")
        /// May do everything.
        public static let owner = Kind(rawValue: "owner")
        /// May publish and not read.
        public static let publishOnly = Kind(rawValue: "publish-only")
        /// May read and publish.
        public static let publisher = Kind(rawValue: "publisher")

        /// All kinds of XEP-0060, in the order of the alphabet.
        package static let defined: [Kind] = [.member, .none, .outcast, .owner, .publishOnly, .publisher]
    }

    /// The node; nil where it goes without saying.
    public var node: ForeignText?
    /// The bare address of the affiliated user.
    public var jid: JID
    /// The kind of the affiliation.
    public var kind: Kind

    /// Describes an affiliation, as ``PubSubOperation/setAffiliations(_:with:)`` takes it.
    ///
    /// - Parameters:
    ///   - jid: Whose; a resource is left out when it is sent.
    ///   - kind: What it allows; `none` ends one.
    ///   - node: The node; nil where it goes without saying.
    public init(_ jid: JID, _ kind: Kind, node: (any TextConvertible)? = nil) {
        (self.jid, self.kind, self.node) = (jid, kind, node?.foreignText)
    }

    /// Reads an `<affiliation/>`; nil when it names neither address nor kind.
    init?(_ element: Element, node: ForeignText?, jid: JID?) {
        let named = element[Wire.jid].map { try? JID($0) } ?? jid
        guard let named, let kind = element[Wire.affiliation] else { return nil }
        self.init(named, Kind(rawValue: kind), node: element[Wire.node] ?? node)
    }

    var element: Element {
        Element(
            Wire.affiliation, namespace: Namespaces.pubsubOwner,
            attributes: [Wire.jid: jid.bare.description, Wire.affiliation: kind.rawValue])
    }
}

/// The owner of a list of subscriptions or affiliations.
enum PubSubList: String, Codable, Sendable {
    /// One's own, at all nodes or at one.
    case own
    /// Everybody's at a node, which its owner sees.
    case node

    var namespace: String { self == .own ? Namespaces.pubsub : Namespaces.pubsubOwner }
}
