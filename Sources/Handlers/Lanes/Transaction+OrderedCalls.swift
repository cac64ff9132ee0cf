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
        try add(.inLane, to: call)
        try insert(LaneEntry(call, LanePlace(Lanes.standing.string, orderedBy: Self.orderKey(id))))
        try settleInLane(call, unfinished)
    }

    /// Orders the later calls of a standing handler, or orders them no longer.
    func setOrdered(_ isOrdered: Bool, of id: AnyHandlerID) throws(HandlerError) {
        guard let known = try relations(of: id), known.contains(.ordered) != isOrdered else { return }
        try connection.write(
            "UPDATE handler SET relations = ? WHERE id = ?",
            [(isOrdered ? known.union(.ordered) : known.subtracting(.ordered)).rawValue, id])
    }

    private static func orderKey(_ id: AnyHandlerID) -> String { String(id.rawValue) }
}
