public import Handlers
public import XMPPAccount
public import XMPPCore

extension PubSubEvent {
    /// An event of a node whose items are values of one type.
    ///
    /// ```swift
    /// @Handler("profile.nick-changed")
    /// static func nickChanged(_ call: borrowing Call<PubSubEvent.Of<UserNick>>) throws {
    ///     guard case .items(let items) = call.change, let nick = items.last?.value else { return }
    ///     try call.step.execute("INSERT OR REPLACE INTO nick VALUES (?, ?)", call.event.service.description, nick.name)
    /// }
    /// ```
    public struct Of<Payload: PubSubPayload>: Sendable {
        /// The change; see ``PubSubEvent/Change``.
        public enum Change: Sendable {
            /// Values were published, in this order. What is no such value is in ``PubSubEvent/Of/unreadable``.
            case items([PubSubValue<Payload>])
            /// The items with these ids are gone.
            case retracted([ForeignText])
            /// All items are gone; the node is still there.
            case purged
            /// The node was deleted. The address, a URI, says where its successor is.
            case deleted(redirect: ForeignText?)
            /// The node is configured otherwise now.
            case configured(DataForm?)
            /// An own subscription has changed, or is about to end.
            case subscription(Subscription)
            /// A node was put into this collection.
            case associated(node: ForeignText)
            /// A node was taken out of this collection.
            case disassociated(node: ForeignText)
        }

        /// The event as it came.
        public let event: PubSubEvent
        /// The change.
        public let change: Change
        /// Items that hold something else: anybody may publish anything on a node of his own.
        public let unreadable: [PubSubItem]

        /// Reads the items of an event.
        ///
        /// - Parameter event: The event as it came.
        package init(_ event: PubSubEvent) {
            self.event = event
            var unreadable: [PubSubItem] = []
            change =
                switch event.change {
                case .items(let items):
                    .items(
                        items.compactMap { item in
                            let value = PubSubValue<Payload>(
                                id: item.id, payload: item.payload, publisher: item.publisher)
                            if value == nil { unreadable.append(item) }
                            return value
                        })
                case .retracted(let ids): .retracted(ids)
                case .purged: .purged
                case .deleted(let redirect): .deleted(redirect: redirect)
                case .configured(let form): .configured(form)
                case .subscription(let subscription): .subscription(subscription)
                case .associated(let node): .associated(node: node)
                case .disassociated(let node): .disassociated(node: node)
                }
            self.unreadable = unreadable
        }

        /// The account that received it.
        public var account: Account { event.account }
    }
}

/// An item of a node as a value.
///
/// ```swift
/// let nick = try await account.request(.pubsub(.values(UserNick.self, .newest(1)), at: juliet)).last?.value.name
/// ```
public struct PubSubValue<Payload: PubSubPayload>: Sendable {
    /// The item's id; nil where items are not kept.
    public let id: ForeignText?
    /// The content of the item.
    public let value: Payload
    /// The publisher, if the service names one.
    public let publisher: JID?

    /// Nil when the item holds no such value.
    init?(id: ForeignText?, payload: Element?, publisher: JID? = nil) {
        guard let payload, let value = try? Payload(payload, itemID: id) else { return nil }
        (self.id, self.value, self.publisher) = (id, value, publisher)
    }
}

extension PubSubValue: Equatable where Payload: Equatable {}
extension PubSubValue: Hashable where Payload: Hashable {}
extension PubSubEvent.Of.Change: Equatable where Payload: Equatable {}
extension PubSubEvent.Of.Change: Hashable where Payload: Hashable {}

// MARK: - The same call in both forms

/// A context that is another one with its items read.
protocol TypedContext<Untyped>: Sendable {
    associatedtype Untyped
    init(_ untyped: Untyped)
}

extension PubSubEvent.Of: TypedContext {}

extension PubSubEvent: ConvertibleContext {
    package func converted(to context: any Sendable.Type) -> (any Sendable)? {
        guard let typed = context as? any TypedContext<PubSubEvent>.Type else { return nil }
        return typed.init(self)
    }
}

extension PubSubEvent.Of: StoredContext, AccountContext {
    /// Returns the bytes of the event itself, as the type that the handler takes is known only when it is called.
    package func stored() throws -> [UInt8] { try event.stored() }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        self.init(try PubSubEvent(restoring: bytes, in: environment))
    }

    package var fingerprint: UInt64 { event.fingerprint }
}
