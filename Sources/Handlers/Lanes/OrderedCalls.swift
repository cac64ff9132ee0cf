/// The calls of an ordered standing handler: a call that cannot run in the step that makes it waits for the earlier ones.
struct OrderedCalls: HandlerFeature {
    static let relations = Relations.ordered
    let transaction: Transaction

    func mustQueue(_ id: AnyHandlerID) throws(HandlerError) -> Bool {
        try connection.first(
            "SELECT 1 FROM lane_entry WHERE lane = ? AND order_key = ? AND position IS NOT NULL LIMIT 1",
            [Lanes.standing, Self.orderKey(id)]
        ) { _ in true } ?? false
    }

    /// Puts it after those that wait.
    func stored(
        _ call: AnyHandlerID, of id: AnyHandlerID, _ unfinished: UnfinishedCall
    ) throws(HandlerError) {
        try handlers.add(.inLane, to: call)
        try lanes.insert(LaneEntry(call, LanePlace(Lanes.standing.string, orderedBy: Self.orderKey(id))))
        try lanes.settle(call, unfinished)
    }

    private static func orderKey(_ id: AnyHandlerID) -> String { String(id.rawValue) }
}
