import FoundationEssentials
import Handlers
import XMPPAccount

/// `pushwake inspect`: what a store holds. It reads only; run it on a copy or beside a running program.
struct InspectCommand {
    private let store: String
    private let isJSON: Bool

    init(_ words: [String]) throws {
        let arguments = try Arguments(words, options: ["--store"], flags: ["--json"])
        store = try arguments.required("--store")
        isJSON = arguments.has("--json")
    }

    func run() throws -> Int32 {
        guard FileManager.default.fileExists(atPath: store) else {
            throw CommandFailure("there is no file \(store); name the store of the program to look at")
        }
        let contents = try HandlerStore(path: store, registry: HandlerRegistry()).step { step in
            try StoreContents(step)
        }
        if isJSON {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            Terminal.say(String(decoding: try encoder.encode(contents), as: UTF8.self))
        } else {
            Terminal.say(contents.text)
        }
        return 0
    }
}

/// Everything that `inspect` shows.
struct StoreContents: Codable {
    struct Account: Codable {
        var jid: String
        var epoch: Int64
        /// Nil when nobody owns the stream.
        var owner: String?
        var session: Int64
        var isResumable: Bool
        var boundAs: String?
        var handled: Int64
        var acknowledged: Int64
        var unsent: Int64
    }

    struct Request: Codable {
        var id: String
        var peer: String?
        var handler: String
        var ageSeconds: Int64
        /// Seconds of connected time that are left.
        var liveSecondsLeft: Int64
    }

    struct SetAside: Codable {
        var row: Int64
        var handler: String
        var state: String
        var reason: String
    }

    var accounts: [Account]
    var requests: [Request]
    var setAside: [SetAside]
    /// How many handlers ended, by outcome.
    var endings: [String: Int64]
    var pendingHandlers: Int64
    var standingHandlers: Int64

    /// How many requests are listed.
    private static let limit = 1000

    init(_ step: borrowing Step) throws {
        accounts = try Self.readAccounts(step)
        requests = try Self.readRequests(step)
        setAside = try step.all(
            "SELECT id, name, state, coalesce(reason, '') FROM handler WHERE state <> 0 ORDER BY id"
        ) {
            (row) throws(HandlerError) in
            SetAside(
                row: row.integer(0), handler: row.text(1),
                state: row.integer(2) == 1 ? "parked" : "quarantined",
                reason: row.text(3))
        }
        let counts = try step.all("SELECT outcome, count(*) FROM ending GROUP BY outcome") {
            (row) throws(HandlerError) in
            (Outcome(rawValue: row.integer(0))?.description ?? "unknown", row.integer(1))
        }
        endings = Dictionary(uniqueKeysWithValues: counts)
        pendingHandlers = try Self.count("SELECT count(*) FROM handler WHERE kind = 0 AND state = 0", step)
        standingHandlers = try Self.count("SELECT count(*) FROM handler WHERE kind = 1", step)
    }

    private static func readAccounts(_ step: borrowing Step) throws(HandlerError) -> [Account] {
        // A store of `Handlers` alone has no accounts.
        guard try count("SELECT count(*) FROM sqlite_schema WHERE name = 'account'", step) > 0 else {
            return []
        }
        return try step.all(
            """
            SELECT jid, coalesce(epoch, 0), owner, number, resumption_id IS NOT NULL, full_jid, handled, acknowledged,
                (SELECT count(*) FROM outbox WHERE outbox.account = account.id)
            FROM account JOIN session ON session.account = account.id
                LEFT JOIN ownership ON ownership.account = account.id ORDER BY jid
            """
        ) { (row) throws(HandlerError) in
            Account(
                jid: row.text(0), epoch: row.integer(1), owner: row.optionalText(2), session: row.integer(3),
                isResumable: row.integer(4) != 0, boundAs: row.optionalText(5), handled: row.integer(6),
                acknowledged: row.integer(7), unsent: row.integer(8))
        }
    }

    private static func readRequests(_ step: borrowing Step) throws(HandlerError) -> [Request] {
        guard try count("SELECT count(*) FROM sqlite_schema WHERE name = 'request'", step) > 0 else {
            return []
        }
        let now = step.now
        return try step.all(
            """
            SELECT stanza_id, peer, name, bound_at, deadline - live_time
            FROM request JOIN handler ON handler.id = request.handler JOIN session USING (account)
            ORDER BY handler.id LIMIT ?
            """, limit
        ) { (row) throws(HandlerError) in
            Request(
                id: row.text(0), peer: row.optionalText(1), handler: row.text(2),
                ageSeconds: (now - row.integer(3)) / 1000, liveSecondsLeft: row.integer(4) / 1000)
        }
    }

    private static func count(_ sql: String, _ step: borrowing Step) throws(HandlerError) -> Int64 {
        try step.first(sql) { (row) throws(HandlerError) in row.integer(0) } ?? 0
    }

    // MARK: For people

    var text: String {
        var lines: [String] = []
        for account in accounts {
            lines.append("account \(account.jid)")
            lines.append("  owner        \(account.owner ?? "nobody") (epoch \(account.epoch))")
            lines.append(
                "  session      \(account.session), \(account.isResumable ? "resumable" : "not resumable"), bound as \(account.boundAs ?? "nothing")"
            )
            lines.append(
                "  counts       \(account.handled) handled, \(account.acknowledged) acknowledged by the server, \(account.unsent) in the outbox"
            )
        }
        lines.append(
            "handlers       \(pendingHandlers) pending, \(standingHandlers) standing, \(setAside.count) set aside"
        )
        for outcome in Outcome.allCases {
            lines.append("  \(outcome): \(endings[outcome.description] ?? 0) ended")
        }
        for request in requests {
            lines.append(
                "request \(request.id) to \(request.peer ?? "the own account"): \(request.handler), \(request.ageSeconds) s old, \(request.liveSecondsLeft) s of connected time left"
            )
        }
        for row in setAside { lines.append("\(row.state) \(row.row) \(row.handler): \(row.reason)") }
        return lines.joined(separator: "\n")
    }
}
