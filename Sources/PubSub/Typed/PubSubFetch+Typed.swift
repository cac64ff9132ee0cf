public import Handlers
public import XMPPAccount
public import XMPPCore

extension PubSubFetch {
    /// The items of a node as values of one type.
    ///
    /// ```swift
    /// @Handler("profile.nick-fetched")
    /// static func nickFetched(_ call: borrowing Call<PubSubFetch.Of<UserNick>>) throws {
    ///     switch call.outcome {
    ///     case .items(let items): …   // items.last?.value.name
    ///     case .notFound, .error, .timedOut: break
    ///     }
    /// }
    /// ```
    public struct Of<Payload: PubSubPayload>: Sendable {
        /// The outcome of a fetch; see ``PubSubFetch/Outcome``.
        public enum Outcome: Sendable {
            /// The node exists and these are its values, in the order of the answer. Look at ``PubSubFetch/Of/unreadable``
            /// before taking none for an empty node.
            case items([PubSubValue<Payload>])
            /// The service says that the node, or every item that was asked for, does not exist.
            case notFound
            /// The service refused or its answer makes no sense; whether there are items is unknown.
            case error(PubSubError)
            /// No answer came in time; whether there are items is unknown.
            case timedOut
        }

        /// The fetch as it ended.
        public let fetch: PubSubFetch
        /// The outcome.
        public let outcome: Outcome
        /// Items that hold something else: anybody may publish anything on a node of his own.
        public let unreadable: [PubSubItem]

        /// Reads the items of a fetch.
        ///
        /// - Parameter fetch: The fetch as it ended.
        package init(_ fetch: PubSubFetch) {
            self.fetch = fetch
            var unreadable: [PubSubItem] = []
            outcome =
                switch fetch.outcome {
                case .items(let items):
                    .items(
                        items.compactMap { item in
                            let value = PubSubValue<Payload>(id: item.id, payload: item.payload)
                            if value == nil { unreadable.append(item) }
                            return value
                        })
                case .notFound: .notFound
                case .error(let error): .error(error)
                case .timedOut: .timedOut
                }
            self.unreadable = unreadable
        }

        /// The account that asked.
        public var account: Account { fetch.account }
        /// The address of the node.
        public var service: JID { fetch.service }
    }
}

extension PubSubFetch.Of: PubSubContext {
    public var value: [PubSubValue<Payload>] {
        get throws {
            let items = try fetch.value
            guard case .items(let values) = outcome else { return [] }
            guard values.isEmpty, let item = items.first else { return values }
            // An empty list would be taken for an empty node.
            guard let payload = item.payload else {
                throw PubSubPayloadError(
                    .unreadable,
                    "the items of the node '\(Payload.node)' hold no \(Payload.self); leave them out")
            }
            _ = try Payload(payload, itemID: item.id)
            return values
        }
    }
}

extension PubSubFetch.Of.Outcome: Equatable where Payload: Equatable {}
extension PubSubFetch.Of.Outcome: Hashable where Payload: Hashable {}

extension PubSubFetch.Of: TypedContext {}

extension PubSubFetch.Of: AccountContext {
    public static var storage: ContextStorage<Self> {
        ContextStorage(encode: { try $0.stored() }, decode: Self.init(restoring:in:))
    }

    /// Returns the bytes of the fetch itself, as the type that the handler takes is known only when it is called.
    package func stored() throws -> [UInt8] { try fetch.stored() }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        self.init(try PubSubFetch(restoring: bytes, in: environment))
    }
}

extension PubSubFetch: ConvertibleContext {
    package func converted(to context: any Sendable.Type) -> (any Sendable)? {
        guard let typed = context as? any TypedContext<PubSubFetch>.Type else { return nil }
        return typed.init(self)
    }
}
