import FoundationEssentials
import Handlers
import XMPPAccount

/// `pushwake inspect`: what a store holds, and the repair of handlers that were set aside. Beside a running program or
/// on a copy; the program's runner calls what was requeued.
struct InspectCommand {
    private enum Repair {
        case requeue(HandlerID)
        case requeueAll
        case discard(HandlerID)
        case invalidate(HandlerID)
    }

    private let store: String
    private let isJSON: Bool
    private let repairs: [Repair]

    init(_ words: [String]) throws {
        let arguments = try Arguments(
            words, options: ["--store", "--requeue", "--discard", "--invalidate"], flags: ["--json"])
        store = try arguments.required("--store")
        isJSON = arguments.has("--json")
        repairs = try [
            arguments.value("--requeue").map {
                $0 == "all" ? .requeueAll : .requeue(try Self.row($0, of: "--requeue", or: " or all"))
            },
            arguments.value("--discard").map { .discard(try Self.row($0, of: "--discard")) },
            arguments.value("--invalidate").map { .invalidate(try Self.row($0, of: "--invalidate")) },
        ].compactMap { $0 }
    }

    private static func row(_ text: String, of option: String, or other: String = "") throws -> HandlerID {
        guard let row = Int64(text), row > 0 else {
            throw UsageError(
                "\(option) takes the number of a handler as inspect shows it\(other), not '\(text)'")
        }
        return HandlerID(rawValue: row)
    }

    private func repair(_ step: borrowing Step) throws {
        for repair in repairs {
            switch repair {
            case .requeue(let handler): try step.requeue(handler)
            case .requeueAll: try step.requeueAll()
            case .discard(let handler): try step.discard(handler)
            case .invalidate(let handler):
                let disposition = try step.invalidate(handler, reason: .discarded)
                guard case .ended = disposition else {
                    throw CommandFailure(
                        "the invalidation of the handler \(handler) cannot run here (\(disposition)); let the program that knows it invalidate it, or discard it"
                    )
                }
            }
        }
    }

    func run() throws -> Int32 {
        guard FileManager.default.fileExists(atPath: store) else {
            throw CommandFailure("there is no file \(store); name the store of the program to look at")
        }
        let contents = try HandlerStore(path: store, registry: .discovered(and: SimulationApp.handlers)).step
        {
            step in
            try repair(step)
            return try StoreContents(step)
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

    /// A handler that is not simply waiting to be called.
    struct Handler: Codable {
        var row: Int64
        var handler: String
        var arguments: String
        var state: String
        /// Milliseconds since 1970 at which a runner calls or expires it.
        var due: Int64?
        var attempts: Int
        var reason: String?

        init(_ status: HandlerStatus) {
            row = status.id.rawValue
            handler = status.name
            arguments = status.arguments
            state = status.state.rawValue
            due = status.due
            attempts = status.attempts
            reason = status.reason
        }
    }

    var accounts: [Account]
    var requests: [Request]
    var setAside: [Handler]
    var running: [Handler]
    /// Timers, retries and deadlines.
    var due: [Handler]
    /// How many handlers ended, by outcome.
    var endings: [String: Int64]
    var pendingHandlers: Int64
    var standingHandlers: Int64

    /// How many rows of each kind are listed.
    private static let limit = 1000

    init(_ step: borrowing Step) throws {
        accounts = try Self.readAccounts(step)
        requests = try Self.readRequests(step)
        let states: [HandlerStatus.State] = [.parked, .quarantined]
        setAside = try states.flatMap { try step.handlers(in: $0, limit: Self.limit) }.map(Handler.init)
        running = try step.handlers(in: .running, limit: Self.limit).map(Handler.init)
        due = try step.dueHandlers(limit: Self.limit).map(Handler.init)
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
        for row in setAside + running + due {
            lines.append(
                "\(row.state) \(row.row) \(row.handler)\(row.arguments), \(row.attempts) attempts"
                    + (row.due.map { ", due \($0)" } ?? "") + (row.reason.map { ": \($0)" } ?? ""))
        }
        return lines.joined(separator: "\n")
    }
}
