package import Handlers
import XMPPAccount

// Requests to peers that do not answer for a long time. They fill a store, and must not slow down any process.
extension SimulationApp {
    /// Waits for the answer.
    struct Stranger: Handler {
        static let id = "strangers.answered"
        var n: Int64
        func run(_ call: borrowing Call<IQReply>) throws {}
    }

    /// Runs when the request can never be answered. It does nothing: only its ending counts.
    struct StrangerGone: Handler {
        static let id = "strangers.gone"
        func run(_ call: borrowing Call<Invalidation>) throws {}
    }

    /// The timeout of a stranger, in connected time: ten years.
    private static let timeout = Duration.seconds(10 * 365 * 86_400)
    /// The number of rows in a transaction.
    private static let chunk = 20_000

    /// Adds requests as if they had been sent in the current session.
    ///
    /// The library binds the first handler, and SQL copies the others from it: the run does not test how they were stored.
    package static func addStrangers(_ count: Int, to store: HandlerStore) throws {
        guard count > 0 else { return }
        let template = try store.step { step in
            try step.bind(Stranger(n: 0).durable.orElse(StrangerGone().durable))
        }
        for first in stride(from: 0, to: count, by: chunk) {
            try store.step { step in try copy(template, first..<min(count, first + chunk), in: step) }
        }
        try store.step { try $0.invalidate(template, reason: .cancelled) }
    }

    private static func copy(_ template: HandlerID<IQReply>, _ range: Range<Int>, in step: borrowing Step)
        throws
    {
        let newest =
            try step.first("SELECT max(id) FROM handler") { $0.integer(0) }
            ?? 0
        let numbers = "WITH RECURSIVE own(n) AS (SELECT ? UNION ALL SELECT n + 1 FROM own WHERE n + 1 < ?)"
        try step.execute(
            """
            \(numbers) INSERT INTO handler(name, version, arguments, or_else, kind, bound_at)
            SELECT name, version, CAST('{"n":' || n || '}' AS BLOB), or_else, kind, bound_at FROM own, handler
            WHERE handler.id = ?
            """, range.lowerBound, range.upperBound, template)
        try step.execute(
            """
            INSERT INTO request(account, stanza_id, peer, session, handler, deadline)
            SELECT account, 'stranger-' || handler.id, 'stranger@example.org/' || handler.id, number, handler.id,
                connected_time + ?
            FROM handler, session WHERE handler.id > ?
            """, timeout.milliseconds, newest)
    }

    /// Returns the number of waiting strangers.
    static func strangers(in step: borrowing Step) throws(HandlerError) -> Int {
        try step.first("SELECT count(*) FROM request WHERE stanza_id LIKE 'stranger-%'") {
            Int($0.integer(0))
        } ?? 0
    }

    /// Returns the number of strangers that ended because their session was lost.
    static func lostStrangers(in step: borrowing Step) throws(HandlerError) -> Int {
        try step.first(
            "SELECT count(*) FROM ending WHERE name = ? AND outcome = ? AND reason = ?", Stranger.id,
            Outcome.invalidated.rawValue, InvalidationReason.sessionLost.rawValue
        ) { Int($0.integer(0)) } ?? 0
    }
}
