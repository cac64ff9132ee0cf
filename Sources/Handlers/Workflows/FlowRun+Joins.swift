extension FlowRun {
    /// Has a handler called, and waits for its ending, which fills the place.
    func run(_ handler: Durable<TimerFired>, lane: LanePlace? = nil) async throws -> JoinedChild {
        // The first engine waited for a join of it. A handler in a lane has one, too.
        guard suspends, lane == nil else {
            return try await join([handler], .all, lane: lane, within: nil)[0]
        }
        let value = try await wait("run", handler.name) { step, _ in
            try step.transaction.handlers.bind(
                handler, kind: .once,
                timing: try .init(timerAfter: .zero, every: nil, scope, step.now), relations: .awaitedByFlow)
        }
        return try ArgumentCoding.value(JoinedChild.self, from: value)
    }

    func join(
        _ handlers: [Durable<TimerFired>], _ rule: JoinRule, lane: LanePlace? = nil, within time: Duration?
    ) async throws -> [JoinedChild] {
        let names = handlers.prefix(3).map(\.name).joined(separator: ", ")
        let kind = handlers.count == 1 && rule == .all ? "run" : "\(rule.word) of \(handlers.count):"
        let value = try await wait(kind, names, mayFillAtOnce: true) { step, place in
            let children = try handlers.map { handler in
                guard let lane else {
                    return AnyHandlerID(try step.schedule(handler, after: .zero, in: scope))
                }
                return AnyHandlerID(try step.enqueue(handler, lane: lane, in: scope))
            }
            let joined = try FlowJoined(flow: place).durable.orElse(FlowGivenUp(flow: place).durable)
            return AnyHandlerID(
                try step.join(joined, when: rule, of: children, deadline: time.map { step.now + $0 }))
        }
        return try ArgumentCoding.value([JoinedChild].self, from: value)
    }

    /// The maximum number of bytes of the handlers for which one operation waits.
    private static let maximumBytes = 16 << 20

    static func stored(_ children: [JoinedChild]) throws(HandlerError) -> [UInt8] {
        let bytes = try ArgumentCoding.encode(children, named: "the handlers for which a workflow waited")
        guard bytes.count <= maximumBytes else {
            throw HandlerError(
                .argumentNotEncodable,
                "the results of \(children.count) handlers have \(bytes.count) bytes together, at most \(maximumBytes); let them return less"
            )
        }
        return bytes
    }
}

extension JoinRule {
    fileprivate var word: String {
        switch self {
        case .all: "all"
        case .any: "any"
        case .quorum(let number): "\(number)"
        }
    }
}
