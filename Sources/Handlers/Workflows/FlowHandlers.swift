/// A place in the journal of a workflow, for the handlers that fill it.
struct FlowPlace: Hashable, Codable, Sendable {
    let workflow: AnyHandlerID
    let position: Int

    /// The start of the names of the handlers below.
    static let prefix = "workflow."

    /// The place that a handler of the runtime fills; nil for other handlers.
    init?(filledBy stored: StoredHandler) {
        struct Bound: Decodable { var flow: FlowPlace }
        guard stored.name.hasPrefix(Self.prefix),
            let bound = try? ArgumentCoding.value(Bound.self, from: stored.arguments)
        else { return nil }
        self = bound.flow
    }

    init(workflow: AnyHandlerID, position: Int) { (self.workflow, self.position) = (workflow, position) }

    /// Stores a timer that fills this place.
    func timer(at time: Timestamp, _ step: borrowing Step) throws -> AnyHandlerID {
        AnyHandlerID(
            try step.schedule(
                FlowWoken(flow: self).durable.orElse(FlowGivenUp(flow: self).durable), after: time - step.now)
        )
    }
}

/// Fills its place when a timer is due.
struct FlowWoken: Handler {
    static let id = "workflow.woken"
    var flow: FlowPlace
    func run(_ call: borrowing Call<TimerFired>) throws {
        try call.step.transaction.journals.resolve(flow, [])
    }
}

/// Fills its place with the value of a signal.
struct FlowSignaled: Handler {
    static let id = "workflow.signaled"
    var flow: FlowPlace
    func run(_ call: borrowing Call<SignalReceived<JSONValue>>) throws {
        try call.step.transaction.journals.fill(flow) { try HandlerResult(call.value).bytes }
    }
}

/// Fills its place with the handlers for which the workflow waited.
struct FlowJoined: Handler {
    static let id = "workflow.joined"
    var flow: FlowPlace
    func run(_ call: borrowing Call<Joined>) throws {
        try call.step.transaction.journals.fill(flow) { try FlowRun.stored(call.children()) }
    }
}

/// Fills its place when the time is over, or when what it waits for was invalidated otherwise.
struct FlowGivenUp: Handler {
    static let id = "workflow.given-up"
    var flow: FlowPlace
    func run(_ call: borrowing Call<Invalidation>) throws {
        let journals = call.step.transaction.journals
        guard call.reason == .timedOut else {
            return try journals.resolve(
                flow, error: StoredReason("what it waited for was invalidated (\(call.reason))"))
        }
        try journals.fill(flow) {
            guard call.context.handler == FlowJoined.id, let waiter = try journals.waiter(of: flow) else {
                // The value of a signal has at least one byte, also for `null`.
                return []
            }
            return try FlowRun.stored(call.step.children(of: waiter))
        }
    }
}

extension Journals {
    /// Fills the place of a handler that was discarded.
    func discarded(_ stored: StoredHandler) throws(HandlerError) {
        guard let place = FlowPlace(filledBy: stored) else { return }
        try resolve(place, error: StoredReason("what it waited for was discarded"))
    }

    /// Fills a place with a value, or with the error of what makes it: a workflow must not wait for ever.
    fileprivate func fill(_ place: FlowPlace, _ value: () throws -> [UInt8]) throws {
        do {
            try resolve(place, value())
        } catch {
            if (error as? HandlerError)?.isStorageFailure == true { throw error }
            try resolve(place, error: StoredReason(error))
        }
    }
}
