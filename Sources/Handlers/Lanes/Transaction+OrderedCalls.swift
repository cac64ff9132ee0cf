/// The calls of an ordered standing handler: a call that cannot run in the step that makes it waits for the earlier ones.
extension Transaction {
    /// Returns whether a new call must wait for an earlier one.
    func hasWaitingCalls(_ id: AnyHandlerID) throws(HandlerError) -> Bool {
        try connection.first(
            "SELECT 1 FROM lane_entry WHERE lane = ? AND order_key = ? AND position IS NOT NULL LIMIT 1",
            [Lanes.standing, Self.orderKey(id)]
        ) { _ in true } ?? false
    }

    /// Puts a stored call after those that wait.
    func add(_ call: AnyHandlerID, toCallsOf id: AnyHandlerID, _ unfinished: UnfinishedCall)
        throws(HandlerError)
    {
        try handlers.add(.inLane, to: call)
        try insert(LaneEntry(call, LanePlace(Lanes.standing.string, orderedBy: Self.orderKey(id))))
        try settleInLane(call, unfinished)
    }

    private static func orderKey(_ id: AnyHandlerID) -> String { String(id.rawValue) }
}
