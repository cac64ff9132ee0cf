import Handlers
import XMPPAccount
import XMPPModules

/// The result of a storm, counted in the store.
package struct StormVerdict: Codable {
    package var seed: UInt64
    package var kills = 0
    package var seconds = 0.0
    /// Whether the last client received everything.
    package var finished = false
    /// The highest peak of physical memory of any client.
    package var peakKib = 0
    package var withinMemory = false
    /// The number of messages that arrived.
    package var received = 0
    package var lost = 0
    package var repeated = 0
    /// Messages that arrived after a later message of the same sender or room.
    package var outOfOrder = 0
    /// The number of the user's own messages; below, the time until the server acknowledged them, in milliseconds.
    package var own = 0
    /// The user's messages that were not delivered, or whose delivery was reported never or twice.
    package var ownWrong = 0
    package var ownP50Ms = 0
    package var ownP99Ms = 0
    /// The number of messages that arrived between the sending of the user's message and its end, for 99 of 100 messages.
    package var ownBehind = 0

    /// Whether everything was kept in order and within the limits.
    package var isGood: Bool {
        finished && withinMemory && lost == 0 && repeated == 0 && outOfOrder == 0 && ownWrong == 0
            && ownP99Ms < 1000
    }

    package init(seed: UInt64) { self.seed = seed }

    /// Counts the rows of the store.
    ///
    /// - Parameter expected: The number of messages in each place.
    package mutating func count(store path: String, expected: [String: Int]) throws {
        let store = try HandlerStore(
            path: path, registry: HandlerRegistry(), schemas: Account.schemas + [StormApp.schema])
        let found = try store.read { snapshot in
            try snapshot.all("SELECT place, number FROM stormed ORDER BY row") {
                (place: $0.text(0), number: Int($0.integer(1)))
            }
        }
        received = found.count
        var seen: [String: Set<Int>] = [:]
        var newest: [String: Int] = [:]
        for row in found {
            if !seen[row.place, default: []].insert(row.number).inserted { repeated += 1 }
            if row.number < newest[row.place, default: -1] { outOfOrder += 1 }
            newest[row.place] = max(newest[row.place, default: -1], row.number)
        }
        lost = expected.reduce(0) { $0 + $1.value - seen[$1.key, default: []].count }
        try countOwn(store)
    }

    /// Checks that each message of the user was delivered once, and that the program was notified once.
    private mutating func countOwn(_ store: HandlerStore) throws {
        let waits = try store.read { snapshot in
            try snapshot.all(
                """
                SELECT acknowledged_at - sent_at, delivered_at IS NOT NULL
                    AND 1 = (SELECT count(*) FROM storm_ended
                        WHERE storm_ended.stanza_id = storm_sent.stanza_id AND delivered),
                    (SELECT min(stormed) FROM storm_ended WHERE storm_ended.stanza_id = storm_sent.stanza_id)
                        - storm_sent.stormed
                FROM storm_sent LEFT JOIN delivery USING(stanza_id)
                """
            ) { row in
                (
                    wait: row.optionalInteger(0).map { Int($0) }, isRight: row.integer(1) != 0,
                    behind: row.optionalInteger(2).map { Int($0) }
                )
            }
        }
        own = waits.count
        ownWrong = waits.count { !$0.isRight }
        let taken = waits.compactMap(\.wait).sorted()
        ownP50Ms = Self.value(of: taken, at: 50)
        ownP99Ms = Self.value(of: taken, at: 99)
        ownBehind = Self.value(of: waits.compactMap(\.behind).sorted(), at: 99)
    }

    /// Returns a percentile of sorted values; 0 if there are none.
    private static func value(of sorted: [Int], at percent: Int) -> Int {
        sorted.isEmpty ? 0 : sorted[min(sorted.count - 1, sorted.count * percent / 100)]
    }

    package var summary: String {
        """
        \(received) messages came in \(Int(seconds * 10) / 10) s, over \(kills) kills: \(lost) were lost, \(repeated) came \
        twice, \(outOfOrder) out of order.
        Meanwhile \(own) messages were sent; the server had half of them within \(ownP50Ms) ms and 99 of 100 within \
        \(ownP99Ms) ms, and 99 of 100 were delivered before \(ownBehind) others had come; \(ownWrong) were not delivered and told so exactly once.
        The client took at most \(peakKib / 1024).\(peakKib % 1024 * 10 / 1024) MiB of memory.
        \(isGood ? "The storm is over." : "THE PROMISE WAS BROKEN.") Seed \(seed).
        """
    }
}
