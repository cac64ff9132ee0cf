public import XMPPCore

/// One item of a node.
///
/// ```swift
/// let item = PubSubItem(id: "current", payload: Element("nick", namespace: nickNamespace, text: "Juliet"))
/// ```
///
/// Source: XEP-0060 section 7.1.1.
public struct PubSubItem: Hashable, Sendable {
    /// The id, unique in the node; nil lets the service choose one when it is published.
    public var id: String?
    /// What the item holds; nil for an item without content.
    public var payload: Element?

    public init(id: String? = nil, payload: Element? = nil) {
        self.id = id
        self.payload = payload
    }

    /// Reads an `<item/>`.
    init(_ element: Element) {
        self.init(id: element["id"], payload: element.firstElement)
    }

    var element: Element {
        Element(
            Wire.item, namespace: Namespaces.pubsub, attributes: ["id": id],
            children: payload.map { [$0] } ?? [])
    }
}

/// Which items of a node to fetch.
public enum PubSubSelection: Hashable, Sendable {
    /// All of them. A service may still leave some out when there are very many.
    case all
    /// The most recent ones, at most that many; 1 or more.
    case newest(Int)
    /// Those with these ids; at least one. Items that do not exist are left out of the answer.
    case ids([String])
}

/// Something that must hold of a node for an item to be published on it: a field of its configuration.
///
/// Open: any field of `http://jabber.org/protocol/pubsub#node_config` may be given by name.
///
/// ```swift
/// let options: [PubSubOption] = [.accessModel(.open), .maximumItems(1), PubSubOption("pubsub#notify_retract", ["1"])]
/// ```
///
/// Source: XEP-0060 section 7.1.5.
public struct PubSubOption: Hashable, Sendable {
    /// The field's name, such as `pubsub#access_model`.
    public let name: String
    /// Its values, one for most fields.
    public let values: [String]

    public init(_ name: String, _ values: [String]) {
        self.name = name
        self.values = values
    }

    /// Who may read the node.
    public static func accessModel(_ model: PubSubAccessModel) -> PubSubOption {
        PubSubOption(Wire.Option.accessModel, [model.rawValue])
    }

    /// Whether items are kept.
    public static func persistItems(_ isOn: Bool) -> PubSubOption {
        PubSubOption(Wire.Option.persistItems, [isOn ? "true" : "false"])
    }

    /// How many items are kept, 1 or more.
    public static func maximumItems(_ count: Int) -> PubSubOption {
        PubSubOption(Wire.Option.maxItems, [String(count)])
    }

    /// As many items are kept as the service allows.
    public static let maximumItemsUnlimited = PubSubOption(Wire.Option.maxItems, [Wire.Option.maximum])
}

/// Who may read a node (XEP-0060 section 4.5). Open for models of later versions.
public struct PubSubAccessModel: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }
    public var description: String { rawValue }

    /// Everyone.
    public static let open = PubSubAccessModel(rawValue: "open")
    /// Those who receive the owner's presence.
    public static let presence = PubSubAccessModel(rawValue: "presence")
    /// Those in certain groups of the owner's roster.
    public static let roster = PubSubAccessModel(rawValue: "roster")
    /// Those whom the owner approves one by one.
    public static let authorize = PubSubAccessModel(rawValue: "authorize")
    /// Those on the owner's list.
    public static let whitelist = PubSubAccessModel(rawValue: "whitelist")

    /// All models of XEP-0060, in its order.
    public static let defined: [PubSubAccessModel] = [.open, .presence, .roster, .authorize, .whitelist]
}
