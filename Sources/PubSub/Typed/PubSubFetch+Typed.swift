public import Handlers
public import XMPPAccount
public import XMPPCore

extension PubSubAnswer where Value == [PubSubItem] {
    /// The items of a node as values of one type.
    ///
    /// ```swift
    /// @Handler("profile.nick-fetched")
    /// static func nickFetched(_ call: borrowing Call<PubSubFetch.Of<UserNick>>) throws {
    ///     switch call.outcome {
    ///     case .success(let items): …   // items.last?.value.name
    ///     case .notFound, .error, .timedOut: break
    ///     }
    /// }
    /// ```
    public struct Of<Payload: PubSubPayload>: Sendable {
        /// The fetch as it ended.
        public let fetch: PubSubFetch
        /// The outcome, with the values in the order of the answer. Look at ``unreadable`` before taking none for an empty
        /// node.
        public let outcome: PubSubAnswer<[PubSubValue<Payload>]>.Outcome
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
                case .success(let items):
                    .success(
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
            guard case .success(let values) = outcome else { return [] }
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

extension PubSubFetch.Of: TypedContext {}

extension PubSubFetch.Of: StoredContext, AccountContext {
    /// Returns the bytes of the fetch itself, as the type that the handler takes is known only when it is called.
    package func stored() throws -> [UInt8] { try fetch.stored() }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        self.init(try PubSubFetch(restoring: bytes, in: environment))
    }
}

extension PubSubAnswer: ConvertibleContext {
    package func converted(to context: any Sendable.Type) -> (any Sendable)? {
        guard let fetch = self as? PubSubFetch,
            let typed = context as? any TypedContext<PubSubFetch>.Type
        else { return nil }
        return typed.init(fetch)
    }
}
