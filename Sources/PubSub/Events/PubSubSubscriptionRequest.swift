public import Handlers
public import XMPPAccount
public import XMPPCore

/// Request to approve a subscription to an own node.
///
/// It can be stored and answered later, by whatever process:
/// ``PubSubService/answer(_:allowing:in:)``.
///
/// ```swift
/// try await account.perform { try account.pubsub.answer(request, allowing: true, in: $0) }
/// ```
///
/// Source: XEP-0060 section 8.6.
public struct PubSubSubscriptionRequest: Codable, Hashable, Sendable {
    /// The address of the node, from which the request came.
    public let service: JID
    /// The node's name.
    public let node: ForeignText
    /// The requester, as the service names it.
    public let subscriber: JID
    /// Id of the subscription among those of the same address.
    public let subscriptionID: ForeignText?
    /// The id of the service's message, which the answer repeats.
    let messageID: ForeignText?
    /// The form as it came: the answer is the form.
    let fields: [Field]

    struct Field: Codable, Hashable, Sendable {
        var name: ForeignText
        var values: [ForeignText]
    }

    /// Reads what a service asks; nil when it does not say who wants to subscribe to what.
    init?(_ form: DataForm, service: JID, messageID: ForeignText?) {
        guard let node = form[SubscriptionForm.node], !node.isEmpty,
            let subscriber = form[SubscriptionForm.subscriber].flatMap({ try? JID(received: $0) })
        else { return nil }
        (self.service, self.node, self.subscriber) = (service, node, subscriber)
        (self.messageID, subscriptionID) = (messageID, form[SubscriptionForm.subscriptionID])
        fields = form.fields.compactMap { field in field.name.map { Field(name: $0, values: field.values) } }
    }

    /// The owner's answer.
    func answer(allowing isAllowed: Bool) -> Message {
        var form = DataForm(
            .submit, type: SubscriptionForm.type,
            fields.filter { $0.name != "FORM_TYPE" }.map { DataForm.Field($0.name, values: $0.values) })
        form[SubscriptionForm.allow] = isAllowed ? "true" : "false"
        return Message(to: service, type: .normal, id: messageID, children: [form.element])
    }
}

/// The form in which a service asks (XEP-0060 section 16.4.2).
enum SubscriptionForm {
    static let type = "http://jabber.org/protocol/pubsub#subscribe_authorization"
    static let node = "pubsub#node"
    static let subscriber = "pubsub#subscriber_jid"
    static let subscriptionID = "pubsub#subid"
    static let allow = "pubsub#allow"
}

/// The context of a standing handler that decides who may subscribe.
///
/// ```swift
/// @Handler("club.asked")
/// static func asked(_ call: borrowing Call<PubSubSubscriptionRequested>) throws {
///     let isMember = call.request.subscriber.domain == "capulet.example"
///     try call.account.pubsub.answer(call.request, allowing: isMember, in: call.step)
/// }
/// ```
public struct PubSubSubscriptionRequested: Sendable {
    /// The account that owns the node.
    public let account: Account
    /// The request. Answer it here, or store it and answer later.
    public let request: PubSubSubscriptionRequest
}

extension PubSubSubscriptionRequested: StoredContext, AccountContext {
    package func stored() throws -> [UInt8] { try ArgumentCoding.encode(request) }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        let account = try Account.serving(environment)
        self.init(
            account: account, request: try ArgumentCoding.value(PubSubSubscriptionRequest.self, from: bytes))
    }
}

/// Takes in what services ask owners.
struct SubscriptionRequestArrival {
    let account: Account
    let service: JID

    private static let event = "pubsub-request"

    private static func key(_ service: JID, _ key: String) -> String { "\(service) \(key)" }

    /// - Returns: Whether there is a handler that decides about it.
    func handle(_ message: Message, in step: borrowing Step) throws -> Bool {
        let form = message.element.children("x", Namespaces.dataForms).lazy.compactMap { DataForm($0) }
            .first { $0.kind == .form && $0.formType == SubscriptionForm.type }
        guard let form else { return false }
        // Who is not named cannot ask: anybody may write such a form, and it would speak in the name of a service.
        let prefix = Self.key(service, "")
        let handlers = try account.listeners.listeners(of: Self.event, in: step).filter {
            $0.key.hasPrefix(prefix)
        }
        guard !handlers.isEmpty else { return false }
        guard let request = PubSubSubscriptionRequest(form, service: service, messageID: message.id) else {
            account.ignore(
                message.element, "\(service) does not say who wants to subscribe to which node", after: step)
            return true
        }
        // Both answers repeat the form, and one is longer by a letter.
        guard StanzaLimit.fits(request.answer(allowing: false).element) else {
            account.ignore(
                message.element, "the answer to this subscription would be larger than every server takes",
                after: step)
            return true
        }
        for listener in handlers {
            let disposition = try step.call(
                HandlerID(of: listener.handler),
                with: PubSubSubscriptionRequested(account: account, request: request))
            try account.report(
                disposition, listener.handler, "subscription of \(request.subscriber) to \(request.node)",
                after: step)
        }
        return true
    }

    func set(
        _ key: String, to handler: Durable<PubSubSubscriptionRequested>, in step: borrowing Step
    ) throws {
        try account.listeners.set(Self.event, key: Self.key(service, key), to: handler, in: step)
    }

    func remove(_ key: String, in step: borrowing Step) throws -> Bool {
        try account.listeners.remove(Self.event, key: Self.key(service, key), in: step)
    }
}
