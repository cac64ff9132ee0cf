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
    package typealias State = OpenName<PubSubSubscription>

    /// The node; nil where it goes without saying.
    public var node: ForeignText?
    /// The subscribed address.
    public var jid: JID
    /// The state of the subscription.
    public var state: OpenName<PubSubSubscription>
    /// Id of the subscription among those of the same address and node. Keep it if the service gives one.
    public var id: ForeignText?

    /// Describes a subscription, as ``PubSubOperation/setSubscriptions(_:to:)`` takes it.
    ///
    /// - Parameters:
    ///   - jid: Who is subscribed.
    ///   - state: How far it has come; `none` ends it.
    ///   - id: Distinguishes it from others of the same address; nil where the service gives none.
    ///   - node: The node; nil where it goes without saying.
    public init(
        _ jid: JID, _ state: OpenName<PubSubSubscription>, id: (any TextConvertible)? = nil,
        node: (any TextConvertible)? = nil
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
        let named = element["jid"].map { try? JID(received: $0) } ?? jid
        guard let named, let state = element["subscription"] ?? state?.rawValue else { return nil }
        self.init(
            named, State(rawValue: state), id: element[Wire.subscriptionID], node: element["node"] ?? node)
    }

    var element: Element {
        Element(
            "subscription", namespace: Namespaces.pubsubOwner,
            attributes: [
                "jid": jid.description, "subscription": state.rawValue, Wire.subscriptionID: id,
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
    package typealias Kind = OpenName<PubSubAffiliation>

    /// The node; nil where it goes without saying.
    public var node: ForeignText?
    /// The bare address of the affiliated user.
    public var jid: JID
    /// The kind of the affiliation.
    public var kind: OpenName<PubSubAffiliation>

    /// Describes an affiliation, as ``PubSubOperation/setAffiliations(_:with:)`` takes it.
    ///
    /// - Parameters:
    ///   - jid: Whose; a resource is left out when it is sent.
    ///   - kind: What it allows; `none` ends one.
    ///   - node: The node; nil where it goes without saying.
    public init(_ jid: JID, _ kind: OpenName<PubSubAffiliation>, node: (any TextConvertible)? = nil) {
        (self.jid, self.kind, self.node) = (jid, kind, node?.foreignText)
    }

    /// Reads an `<affiliation/>`; nil when it names neither address nor kind.
    init?(_ element: Element, node: ForeignText?, jid: JID?) {
        let named = element["jid"].map { try? JID(received: $0) } ?? jid
        guard let named, let kind = element["affiliation"] else { return nil }
        self.init(named, Kind(rawValue: kind), node: element["node"] ?? node)
    }

    var element: Element {
        Element(
            "affiliation", namespace: Namespaces.pubsubOwner,
            attributes: ["jid": jid.bare.description, "affiliation": kind.rawValue])
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

extension OpenName where List == PubSubSubscription {
    /// There is no subscription; setting it ends one.
    public static var none: Self { Self(rawValue: "none") }
    /// The node's owner has yet to approve it; no events come.
    public static var pending: Self { Self(rawValue: "pending") }
    /// Events come.
    public static var subscribed: Self { Self(rawValue: "subscribed") }
    /// Its options have yet to be set; events may not come before.
    public static var unconfigured: Self { Self(rawValue: "unconfigured") }
}

extension OpenName where List == PubSubAffiliation {
    /// May read where others need permission.
    public static var member: Self { Self(rawValue: "member") }
    /// Nothing beyond what everybody may; setting it ends an affiliation.
    public static var none: Self { Self(rawValue: "none") }
    /// May do nothing at all.
    public static var outcast: Self { Self(rawValue: "outcast") }
    /// May do everything.
    public static var owner: Self { Self(rawValue: "owner") }
    /// May publish and not read.
    public static var publishOnly: Self { Self(rawValue: "publish-only") }
    /// May read and publish.
    public static var publisher: Self { Self(rawValue: "publisher") }
}
