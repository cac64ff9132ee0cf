/// The audit of the items of a node, without access to a store.
///
/// A server sends an item to the open sessions. It stores only the last item, and sends it when a session starts (XEP-0163 section
/// 4.3.4). So items that were published without a session are replaced, which is no error. Within a session every item must arrive,
/// except the ones right after the first. The first may be the stored item, and the server sends further items only after it has
/// learned the account's interests.
package struct EventAudit {
    /// A stored item. Rows are in the order in which they were stored.
    package struct Row {
        package let n: Int
        package let session: Int64
        package let role: String
    }

    package let rows: [Row]
    /// The number of published items. They are numbered from 1.
    package let published: Int
    /// The session at the end.
    package let session: Int64

    /// The number of published items from which an empty store always means a loss.
    private static let enough = 20

    package var counts: Verdict.EventCounts {
        var counts = Verdict.EventCounts()
        let stored = Set(rows.map(\.n)).filter { (1...max(published, 1)).contains($0) }
        counts.published = published
        counts.stored = stored.count
        counts.byWorker = rows.count { $0.role == "worker" }
        // An item that was never published also counts here.
        counts.repeated = rows.count - stored.count
        let missing = published - stored.count
        counts.lost = stored.isEmpty && published >= Self.enough ? missing : lost(stored)
        counts.replaced = missing - counts.lost
        return counts
    }

    /// Counts the items that are missing between two items of one session, or after the last item of the final session.
    private func lost(_ stored: Set<Int>) -> Int {
        var firsts: [Int64: Int] = [:]
        var sessions: [Int: Int64] = [:]
        for row in rows where stored.contains(row.n) {
            if firsts[row.session] == nil { firsts[row.session] = row.n }
            sessions[row.n] = sessions[row.n] ?? row.session
        }
        let ordered = stored.sorted()
        let ends = ordered.dropFirst().map { ($0, sessions[$0]) } + [(published + 1, session)]
        return zip(ordered, ends).reduce(0) { count, hole in
            let (n, (next, following)) = hole
            guard let own = sessions[n], own == following, firsts[own] != n else { return count }
            return count + next - n - 1
        }
    }
}
