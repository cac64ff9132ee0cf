/// The maximum number of rows of each table in a world's database.
///
/// A table that is missing here is a violation, so that every new table gets a bound.
struct WorldBounds {
    /// The number of all handlers that the application has bound, of the peer's messages, and of all stanzas sent to the account.
    let bound: Int, messages: Int, sent: Int
    let lives: Int, powerLosses: Int
    /// The number of live processes.
    let alive: Int
    /// Whether everything has ended, so that no row may be waiting.
    let isAtRest: Bool
    let hasArchive: Bool
    /// Whether the application starts workflows, each of which has handlers of its own.
    let hasErrands: Bool
    /// Whether the application uses a lane and calendars.
    let hasLanes: Bool
    /// The maximum number of rows for each handler that the application has bound.
    private var rowsOfHandler: Int { hasErrands ? 5 : hasLanes ? 3 : 2 }
    /// The maximum number of requested archive pages, each of which has an answer.
    private var pages: Int { hasArchive ? sent : 0 }

    private static let single: Set<String> = [
        "account", "archive", "fast_token", "login", "own_presence", "ownership", "place",
        "roster",
        "session",
    ]
    /// Tables of rows that wait for the server, for a handler or for a process.
    private static let waiting: Set<String> = [
        "chain_limit", "chain_member", "deferred", "delivery", "dropped_call", "early_signal", "event",
        "handler_join", "handler_key",
        "inbound_request", "join_child", "journal", "outbox", "request",
        "seen", "subscription_stanza", "subscription_wait",
    ]
    /// Tables of features that worlds do not use.
    private static let unused: Set<String> = [
        "capability", "capability_query", "contact_presence", "entity", "lane_share", "occupant",
        "push_registration",
        "handler_progress", "push_removal", "room", "room_invitation", "room_message", "room_watch",
        "subscription_request",
    ]

    let addition: (any WorldExtension)?

    /// - Returns: Nil for a table without a bound.
    private func limit(of table: String) -> Int? {
        if Self.single.contains(table) { return 1 }
        if Self.waiting.contains(table) {
            return isAtRest ? 0 : rowsOfHandler * bound + messages + pages + 30
        }
        if Self.unused.contains(table) { return 0 }
        return switch table {
        // The last five of each handler whose ending is kept; one row for ten minutes and a name.
        case "handler_failure": 5 * rowsOfHandler * (bound + messages + pages + 30)
        case "handler_activity": 200 * 1009
        case "handler_repair": 0
        case "calendar", "lane_entry": isAtRest || !hasLanes ? 0 : rowsOfHandler * bound
        case "lane": hasLanes ? 1 : 0
        // The query of an archive whose session was lost stays until the next session.
        case "archive_query": isAtRest ? (hasArchive ? 1 : 0) : pages + 30
        // The listeners for messages and items stay, and one of the addition.
        case "handler": isAtRest ? 3 : bound + 30
        // The server shows the last item again when a session starts.
        case "pubsub_seen_item": min(messages, 64)
        case "pubsub_typed_listener": 1
        // Endings of the application, of modules' requests at the start of a session, of relays in chains, and of archive pages.
        case "ending", "ending_detail": rowsOfHandler * bound + 6 * lives + pages + (addition == nil ? 0 : 20)
        // A message is stored with its id and its places in archives. A sent message has marks, too.
        case "seen_mark": 4 * sent + bound
        case "seen_sender": 6
        case "listener": 2
        // After a power loss, each process that opens the older store records a new identity, until a process takes over the
        // account.
        case "identity": powerLosses == 0 ? 1 : 1 + lives
        case "connected_clock": 2
        // The next process frees the slots of dead processes.
        case "connected_slot": isAtRest ? 2 * alive : 2 * lives
        case "module": 5
        case "module_schema": 20
        case "roster_item", "blocked": 6
        case "world_bound", "world_ended": bound
        case "world_received": messages
        default: addition?.limit(of: table, bound: bound, messages: messages)
        }
    }

    /// - Returns: A description of the violation; nil if there is none.
    func violation(of counts: [(table: String, rows: Int)]) -> String? {
        for (table, rows) in counts {
            guard let limit = limit(of: table) else { return "the table \(table) has no bound" }
            if rows > limit { return "the table \(table) has \(rows) rows, and may have \(limit)" }
        }
        return nil
    }
}
