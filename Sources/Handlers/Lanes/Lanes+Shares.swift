/// Shares of lanes: entries of several shares that wait start by turns, each share as often as its weight says.
///
/// ```text
///   share    tag            the lowest tag has the next turn: B
///   A        clock + 3      clock = 1, and the tag of B grows by 1 / weight
///   B        clock + 1      a share that comes now starts with the tag clock + 1 / weight
/// ```
/// So none saves up turns while it has nothing that waits, and those that come later do not keep an earlier one from its turn. A share is
/// there while entries of it wait; the look that finds none removes it. A lane in which no entry has named a share pays nothing.
extension Lanes {
    /// A share that has its turn.
    struct ShareTurn {
        let share: Name
        let tag: Int64
        let weight: Int
    }

    /// By how much a turn of a share with the weight 1 moves its tag.
    private static let turn: Int64 = 1_000_000

    /// The share of the entries that have named none.
    private static let noShare: Name = ""

    /// The share of an entry that is about to wait for a place; nil in a lane without shares.
    func shareOfWaiting(_ entry: LaneEntry) throws(HandlerError) -> Name? {
        var lane = try lane(entry.lane)
        // Without limits, all start at once.
        guard lane.stored != nil else { return entry.share }
        if lane.gate.shareClock == nil {
            guard entry.share != nil else { return nil }
            lane.gate.shareClock = 0
            transaction.features.lanes.put(lane, entry.lane)
            try giveShares(in: entry.lane)
        }
        let share = entry.share ?? Self.noShare
        try add(share, weight: entry.weight, to: entry.lane)
        return share
    }

    private func add(_ share: Name, weight: Int, to name: Name) throws(HandlerError) {
        let clock = try lane(name).gate.shareClock ?? 0
        try connection.write(
            "INSERT INTO lane_share(lane, share, tag) VALUES (?, ?, ?) ON CONFLICT(lane, share) DO NOTHING",
            [name, share, clock + Self.turn / Int64(weight)])
    }

    /// Lets the entries that waited before the first one with a share have one together.
    private func giveShares(in name: Name) throws(HandlerError) {
        try connection.write(
            "UPDATE lane_entry SET share = ? WHERE lane = ? AND share IS NULL", [Self.noShare, name])
        try add(Self.noShare, weight: 1, to: name)
    }

    /// Finds the shares of entries that wait in a lane that gets limits.
    func findShares(in name: Name) throws(HandlerError) {
        let shares = try connection.all(
            """
            SELECT DISTINCT share FROM lane_entry
            WHERE lane = ? AND share IS NOT NULL AND state = \(LaneState.ready.sql)
            """, [name]
        ) { $0.foreignText(0) }
        if shares.isEmpty { return }
        var lane = try lane(name)
        lane.gate.shareClock = 0
        transaction.features.lanes.put(lane, name)
        try giveShares(in: name)
        for share in shares { try add(share, weight: 1, to: name) }
    }

    func dropShares(of name: Name) throws(HandlerError) {
        try connection.write("DELETE FROM lane_share WHERE lane = ?", [name])
    }

    /// The first entry of the share that has its turn.
    func firstReadyByShare(in name: Name) throws(HandlerError) -> FirstEntry? {
        while let turn = try connection.first(
            "SELECT share, tag FROM lane_share WHERE lane = ? ORDER BY tag, share LIMIT 1", [name],
            { (share: $0.foreignText(0), tag: $0.integer(1)) })
        {
            let entry = try connection.first(
                """
                SELECT lane_entry.handler, handler.scope, lane_entry.weight
                FROM lane_entry JOIN handler ON handler.id = lane_entry.handler
                WHERE lane_entry.lane = ? AND lane_entry.share = ? AND lane_entry.state = \(LaneState.ready.sql)
                ORDER BY lane_entry.rank, lane_entry.handler LIMIT 1
                """, [name, turn.share]
            ) {
                FirstEntry(
                    id: AnyHandlerID(rawValue: $0.integer(0)),
                    scope: $0.optionalText(1).map { HandlerScope($0) },
                    turn: ShareTurn(
                        share: turn.share, tag: turn.tag, weight: $0.optionalInteger(2).map { Int($0) } ?? 1))
            }
            if let entry { return entry }
            try connection.write(
                "DELETE FROM lane_share WHERE lane = ? AND share = ?", [name, turn.share])
        }
        return nil
    }

    /// Gives a share its next turn.
    func take(_ turn: ShareTurn, in name: Name) throws(HandlerError) {
        var lane = try lane(name)
        lane.gate.shareClock = turn.tag
        transaction.features.lanes.put(lane, name)
        try connection.write(
            "UPDATE lane_share SET tag = ? WHERE lane = ? AND share = ?",
            [turn.tag + Self.turn / Int64(turn.weight), name, turn.share])
    }
}
