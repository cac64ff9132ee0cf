public import XMPPCore

/// A contact in the roster, as the server stores it.
///
/// ```swift
/// let item = try account.store.read { try account.roster.item(for: juliet, in: $0) }
/// print(item?.name ?? "", item?.subscription == .both)
/// ```
///
/// Source: RFC 6121 section 2.1.2.
public struct RosterItem: Hashable, Sendable {
    /// Subscription state (RFC 6121 section 2.1.2.5).
    public enum Subscription: String, Hashable, Sendable, CaseIterable {
        /// Neither sees the other's presence.
        case none
        /// The account sees the contact's.
        case to
        /// The contact sees the account's.
        case from
        /// Both see each other's.
        case both
    }

    /// The contact's address, usually a bare one.
    public let jid: JID
    /// The user's name for the contact.
    public var name: ForeignText?
    /// Subscription state of the contact.
    public var subscription: Subscription
    /// Whether the account has asked to see the contact's presence and is not answered yet.
    public var isAsking: Bool
    /// Whether the contact's subscription is approved in advance (RFC 6121 section 3.4).
    public var isApproved: Bool
    /// The user's groups of the contact, each once. In the server's order.
    public var groups: [ForeignText]

    /// Makes an item, for ``RosterOperations/set(_:)`` and for tests.
    ///
    /// - Parameters:
    ///   - jid: The contact's address.
    ///   - name: The user's name for the contact; nil for none.
    ///   - subscription: Subscription state.
    ///   - isAsking: Whether the account has asked to see the contact's presence and is not answered yet.
    ///   - isApproved: Whether the contact's request is approved in advance.
    ///   - groups: The groups into which the user has put the contact.
    public init(
        _ jid: JID, name: (any TextConvertible)? = nil, subscription: Subscription = .none,
        isAsking: Bool = false, isApproved: Bool = false, groups: [any TextConvertible] = []
    ) {
        self.jid = jid
        self.name = name?.foreignText
        self.subscription = subscription
        self.isAsking = isAsking
        self.isApproved = isApproved
        self.groups = groups.map(\.foreignText)
    }

    /// Whether the account sees the contact's presence.
    package var isSubscribed: Bool { subscription == .to || subscription == .both }
    /// Whether the contact sees the account's presence.
    package var isSubscriber: Bool { subscription == .from || subscription == .both }

    /// The maximum number of stored groups of an item.
    static let maximumGroups = 32
    /// The maximum number of stored bytes of a group's name.
    static let longestGroup = 256

    /// Reads an `<item/>`; nil if it has no address. What it says beyond the rules counts as not said: of unknown
    /// subscriptions RFC 6121 section 2.1.2.5 demands that.
    init?(_ element: Element) {
        guard element.has(name: "item", namespace: Namespaces.roster),
            let jid = try? element.value(of: "jid", as: JID.self)
        else { return nil }
        var groups: [ForeignText] = []
        for group in element.children("group", Namespaces.roster).prefix(Self.maximumGroups)
            .map({ $0.text.prefix(bytes: Self.longestGroup) })
        where !group.isEmpty && !groups.contains(group) { groups.append(group) }
        self.init(
            jid, name: element["name"].flatMap { $0.isEmpty ? nil : $0.prefix(bytes: ForeignBounds.words) },
            subscription: element["subscription"].flatMap(Subscription.init) ?? .none,
            isAsking: element["ask"] == "subscribe",
            isApproved: (try? element.value(of: "approved")) == true, groups: groups)
    }
}

/// The elements of the roster.
enum RosterWire {
    static func query(version: ForeignText?) -> Element {
        Element("query", namespace: Namespaces.roster, attributes: ["ver": version])
    }

    /// Returns the request that sets an item: the client sends name and groups only (RFC 6121 section 2.3.1).
    static func set(_ item: RosterItem) -> Element {
        self.item(
            ["jid": item.jid.description, "name": item.name],
            item.groups.map { Element("group", namespace: Namespaces.roster, text: $0) })
    }

    static func remove(_ jid: JID) -> Element {
        item(["jid": jid.description, "subscription": "remove"], [])
    }

    private static func item(
        _ attributes: KeyValuePairs<String, (any TextConvertible)?>, _ children: [Element]
    ) -> Element {
        let item = Element("item", namespace: Namespaces.roster, attributes: attributes, children: children)
        return Element("query", namespace: Namespaces.roster, children: [item])
    }
}
