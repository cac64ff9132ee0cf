/// How many rows each table of a world's database may have.
///
/// A table that is not named here is a violation, so that a new one gets a bound.
struct WorldBounds {
    /// The handlers of the application that were ever bound, the messages of the peer, and everything that was ever sent to the
    /// account.
    let bound: Int, messages: Int, sent: Int
    let lives: Int, powerLosses: Int
    /// The processes that live.
    let alive: Int
    /// Whether everything has ended, so that nothing may be left that waits.
    let isAtRest: Bool
    let hasArchive: Bool
    /// The pages of archives that were asked for: each has an answer.
    private var pages: Int { hasArchive ? sent : 0 }

    private static let single: Set<String> = [
        "account", "archive", "fast_token", "login", "own_presence", "ownership", "place",
        "roster",
        "session",
    ]
    /// What waits for the server, for a handler or for a process.
    private static let waiting: Set<String> = [
        "archive_query", "deferred", "delivery", "dropped_call", "event", "inbound_request", "outbox",
        "request",
        "seen", "subscription_stanza", "subscription_wait",
    ]
    /// Tables of features that no world uses.
    private static let unused: Set<String> = [
        "capability", "capability_query", "contact_presence", "entity", "occupant", "push_registration",
        "push_removal", "room", "room_invitation", "room_message", "room_watch", "subscription_request",
    ]

    let addition: (any WorldExtension)?

    /// - Returns: Nil for a table without a bound.
    private func limit(of table: String) -> Int? {
        if Self.single.contains(table) { return 1 }
        if Self.waiting.contains(table) { return isAtRest ? 0 : 2 * bound + messages + pages + 30 }
        if Self.unused.contains(table) { return 0 }
        return switch table {
        // The listeners for messages and items stay, and one of the addition.
        case "handler": isAtRest ? 3 : bound + 30
        // The last item is shown again when a session begins.
        case "pubsub_seen_item": min(messages, 64)
        // Beside those of the application: what modules ask when a session begins, the relays of chains, and pages of archives.
        case "ending": 2 * bound + 6 * lives + pages + (addition == nil ? 0 : 20)
        // A message is known by its id, and by its places in archives; a sent one, too.
        case "seen_mark": 4 * sent + bound
        case "seen_sender": 6
        case "listener": 2
        // Until a process takes the account over, each that opens an older store finds that it is one.
        case "identity": powerLosses == 0 ? 1 : 1 + lives
        case "connected_clock": 2
        // Those of dead processes are freed by the next one.
        case "connected_slot": isAtRest ? 2 * alive : 2 * lives
        case "module": 5
        case "module_schema": 20
        case "roster_item", "blocked": 6
        case "world_bound", "world_ended": bound
        case "world_received": messages
        default: addition?.limit(of: table, bound: bound, messages: messages)
        }
    }

    /// - Returns: What is wrong; nil when nothing is.
    func violation(of counts: [(table: String, rows: Int)]) -> String? {
        for (table, rows) in counts {
            guard let limit = limit(of: table) else { return "the table \(table) has no bound" }
            if rows > limit { return "the table \(table) has \(rows) rows, and may have \(limit)" }
        }
        return nil
    }
}
