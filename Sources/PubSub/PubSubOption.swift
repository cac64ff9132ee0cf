public import XMPPCore

/// A field of a node's configuration or of a subscription's options.
///
/// Open: any field of `http://jabber.org/protocol/pubsub#node_config` or `…#subscribe_options` may be given by name.
///
/// ```swift
/// let options: [PubSubOption] = [.accessModel(.open), .maximumItems(1), PubSubOption("pubsub#notify_retract", ["1"])]
/// ```
///
/// Source: XEP-0060 sections 7.1.5 and 17.4.
public struct PubSubOption: Hashable, Sendable {
    /// The field's name, such as `pubsub#access_model`.
    package let name: ForeignText
    /// Its values, one for most fields.
    package let values: [ForeignText]

    /// Makes a field.
    ///
    /// - Parameters:
    ///   - name: Its name, such as `pubsub#notify_retract`.
    ///   - values: Its values; booleans are `true` or `false`, or `1` or `0`.
    public init(_ name: any TextConvertible, _ values: [any TextConvertible]) {
        self.name = name.foreignText
        self.values = values.map(\.foreignText)
    }

    /// Makes an option from a field of a form that a service sent.
    ///
    /// - Parameter field: The field, its type and label left out.
    /// - Returns: Nil for one without a name, which holds no value.
    public init?(_ field: DataForm.Field) {
        guard let name = field.name else { return nil }
        self.init(name, field.values)
    }

    /// Returns the option for the access model of the node.
    ///
    /// - Parameter model: Who may.
    /// - Returns: The field `pubsub#access_model`.
    public static func accessModel(_ model: PubSubAccessModel) -> PubSubOption {
        PubSubOption(Wire.Option.accessModel, [model.rawValue])
    }

    /// Returns the option that decides whether items are stored.
    ///
    /// - Parameter isOn: Whether they are; without it a node only notifies.
    /// - Returns: The field `pubsub#persist_items`.
    public static func persistItems(_ isOn: Bool) -> PubSubOption {
        PubSubOption(Wire.Option.persistItems, [isOn ? "true" : "false"])
    }

    /// Returns the option for the number of items that are stored. The oldest ones go.
    ///
    /// - Parameter count: 1 or more; nil for as many as the service allows.
    /// - Returns: The field `pubsub#max_items`.
    public static func maximumItems(_ count: Int?) -> PubSubOption {
        PubSubOption(Wire.Option.maxItems, [count.map { String($0) } ?? Wire.Option.maximum])
    }
}

/// The access model of a node: who may read it (XEP-0060 section 4.5).
///
/// ```swift
/// try await account.request(.pubsub(.create("club", with: [.accessModel(.authorize)]), at: service))
/// ```
public enum PubSubAccessModel: String, Hashable, Sendable, CaseIterable {
    /// Everyone.
    case open
    /// Users who receive the owner's presence.
    case presence
    /// Users in certain groups of the owner's roster.
    case roster
    /// Subscribers that the owner has approved.
    case authorize
    /// Users on the owner's list.
    case whitelist
}

extension DataForm {
    init(_ type: String, _ options: [PubSubOption]) {
        self.init(.submit, type: type, options.map { Field($0.name, values: $0.values) })
    }
}

/// The forms that a service gives out.
enum PubSubForm: String, Codable, Sendable {
    case configuration
    case defaultConfiguration
    case options
    case defaultOptions

    /// The element that holds the form.
    var name: String {
        switch self {
        case .configuration: "configure"
        case .options: "options"
        case .defaultConfiguration, .defaultOptions: Wire.defaults
        }
    }

    var namespace: String {
        switch self {
        case .configuration, .defaultConfiguration: Namespaces.pubsubOwner
        case .options, .defaultOptions: Namespaces.pubsub
        }
    }
}
