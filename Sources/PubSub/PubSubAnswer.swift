import XMPPAccount
import XMPPCore

/// What the answer to a request means: rules without account, store or clock.
enum PubSubAnswer {
    static func fetch(_ reply: IQReply.Outcome, in iq: IQ, node: String) -> PubSubFetch.Outcome {
        switch reply {
        case .timeout: .timedOut
        case .error(let error): failedFetch(PubSubError(error, in: iq))
        case .result(let payload): fetched(payload, node: node)
        }
    }

    private static func failedFetch(_ error: PubSubError) -> PubSubFetch.Outcome {
        // Read by the pubsub condition first: one that says more than "not found" is an error of its own.
        error.condition == nil && error.stanzaError.condition == .itemNotFound ? .notFound : .error(error)
    }

    private static func fetched(_ payload: Element?, node: String) -> PubSubFetch.Outcome {
        // An answer about something else must not be read as "no items".
        guard let items = child(Wire.items, of: payload), items[Wire.node] == node else {
            return .error(
                PubSubError(
                    StanzaError(
                        .undefinedCondition, text: "the answer does not speak of the items of '\(node)'")))
        }
        return .items(items.children(Wire.item, Namespaces.pubsub).map { PubSubItem($0) })
    }

    static func publish(_ reply: IQReply.Outcome, in iq: IQ, itemID: String?) -> PubSubPublication.Outcome {
        switch reply {
        case .timeout: return .timedOut
        case .error(let stanzaError):
            let error = PubSubError(stanzaError, in: iq)
            return error.condition == .preconditionNotMet ? .preconditionNotMet(error) : .error(error)
        case .result(let payload):
            // The answer names the item only where the service chose its id, and need not even then (section 7.1.2).
            let item = child(Wire.publish, of: payload)?.child(Wire.item, Namespaces.pubsub)
            return .published(id: item?[Wire.id] ?? itemID)
        }
    }

    private static func child(_ name: String, of payload: Element?) -> Element? {
        guard let payload, payload.has(name: Wire.pubsub, namespace: Namespaces.pubsub) else { return nil }
        return payload.child(name, Namespaces.pubsub)
    }
}
