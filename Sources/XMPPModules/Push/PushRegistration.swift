public import XMPPAccount
public import XMPPCore

/// Push service and node that the server notifies while no client is connected (XEP-0357).
///
/// ```swift
/// PushRegistration(service: service, node: token, options: [.init("secret", secret)])
/// ```
///
/// The app's own server gives out service, node and options, in a way of its own. They are stored as they are.
public struct PushRegistration: Hashable, Sendable {
    /// The address of the push service.
    public let service: JID
    /// The node of this installation at the service. Nil if the service needs none.
    public let node: ForeignText?
    /// Fields that the service gets with each notification, such as a secret. Without `FORM_TYPE`.
    public var options: [DataForm.Field]

    /// Makes a registration; nothing is stored or sent.
    ///
    /// - Parameters:
    ///   - service: The address of the push service.
    ///   - node: The node there; nil when the service needs none.
    ///   - options: What the server passes on to the service with each notification.
    public init(service: JID, node: (any TextConvertible)?, options: [DataForm.Field] = []) {
        self.service = service
        self.node = node?.foreignText
        self.options = options
    }

    static let formType = "http://jabber.org/protocol/pubsub#publish-options"

    /// The form with the options; nil when there are none.
    var form: Element? { options.isEmpty ? nil : DataForm(.submit, type: Self.formType, options).element }

    var enableElement: Element {
        Element(
            "enable", namespace: Namespaces.push,
            attributes: ["jid": service.description, "node": node], children: [form].compactMap(\.self))
    }

    static func disableElement(_ service: JID, node: ForeignText?) -> Element {
        Element(
            "disable", namespace: Namespaces.push, attributes: ["jid": service.description, "node": node])
    }
}

/// The state of a registration at the server.
///
/// ```swift
/// let state = try account.store.read { try account.push.state(of: service, node: token, in: $0) }
/// ```
public enum PushState: Hashable, Sendable {
    /// It was not answered in this session, or there is no session.
    case pending
    /// The server notifies the service.
    case enabled
    /// The server does not; it is asked again in the next session.
    case refused(StanzaError)
}

/// A stored change of the registrations.
///
/// ```swift
/// for await change in account.events(of: PushChange.self) { print(change) }
/// ```
public enum PushChange: ModuleEvent, Hashable {
    /// The server notifies the service from now on.
    case enabled(PushRegistration)
    /// The server does not notify the service. It is asked again in the next session. The error is nil when it did not
    /// answer in time.
    case notEnabled(PushRegistration, StanzaError?)
    /// The service takes no more notifications for this node. The registration is removed, and disabled at the server.
    case revoked(PushRegistration)
}
