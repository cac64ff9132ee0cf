import FoundationEssentials
package import Handlers

/// A handler that has not ended, as an operator sees it. Times are in RFC 3339; row numbers are texts, because readers of JSON may round
/// large numbers.
package struct HandlerItem: AnswerRow {
    package var row: String
    /// The first handler of its chain.
    package var chain: String
    package var handler: String
    package var version: Int
    package var state: HandlerStatus.State
    package var key: String?
    /// Why it has not ended, as a sentence without its subject.
    package var why: String
    package var boundAt: String
    package var dueAt: String?
    /// When the process that runs it started to.
    package var startedAt: String?
    package var attempts: Int
    package var deaths: Int
    package var reason: String?
    package var arguments: JSONValue
    private var age: Int64

    package static let columns = [
        "row", "chain", "handler", "version", "state", "key", "why", "boundAt", "dueAt", "startedAt",
        "attempts", "deaths", "reason", "arguments",
    ]

    private enum CodingKeys: CodingKey {
        case row, chain, handler, version, state, key, why, boundAt, dueAt, startedAt, attempts, deaths
        case reason, arguments
    }

    package init(_ status: HandlerStatus, why: String, now: Timestamp) {
        (row, chain) = ("\(status.id)", "\(status.trace)")
        (handler, version, state, key) = (status.name, status.version, status.state, status.key)
        self.why = why
        boundAt = "\(status.boundAt)"
        (dueAt, startedAt) = (status.dueAt.map { "\($0)" }, status.startedAt.map { "\($0)" })
        (attempts, deaths, reason) = (status.attempts, status.deaths, status.reason)
        let json = try? JSONDecoder().decode(JSONValue.self, from: Data(status.arguments.utf8))
        arguments = json ?? .string(status.arguments)
        age = (now - (status.startedAt ?? status.boundAt)).milliseconds
    }

    package var cells: [TextTable.Cell] {
        [
            .text("row", row), .text("handler", "\(handler)@\(version)", least: 12),
            .text("state", state.rawValue), .span(state == .running ? "age" : "age", age),
            .number("attempts", attempts), .text("why", why, least: 24),
            .text("arguments", (try? OperatorJSON.text(arguments)) ?? "", least: 8),
        ]
    }
}

/// A failure of a handler.
package struct FailureItem: AnswerRow {
    package var attempt: Int
    package var at: String
    /// How long the run took; nil for a call inside a step.
    package var runMilliseconds: Int64?
    package var slot: Int
    package var error: String

    package static let columns = ["attempt", "at", "runMilliseconds", "slot", "error"]

    package init(_ failure: FailedAttempt) {
        (attempt, at, slot, error) = (failure.attempt, "\(failure.at)", failure.slot, failure.error)
        runMilliseconds = failure.run?.milliseconds
    }

    package var cells: [TextTable.Cell] {
        [
            .number("run", attempt), .text("failed at", at), .span("after", runMilliseconds),
            .number("slot", slot), .text("error", error, least: 24),
        ]
    }
}

/// A change by hand.
package struct RepairItem: AnswerRow {
    package var number: String
    package var at: String
    package var by: String
    package var way: String
    package var action: String
    package var row: String?
    package var name: String
    package var stateBefore: String?
    package var because: String?

    package static let columns = [
        "number", "at", "by", "way", "action", "row", "name", "stateBefore", "because",
    ]

    package init(_ repair: Repair) {
        (number, at, action) = ("\(repair.number)", "\(repair.at)", repair.action)
        (by, way, because) = (repair.author.name, repair.author.way.rawValue, repair.author.reason)
        (row, name) = (repair.handler.map { "\($0)" }, repair.name)
        stateBefore = repair.stateBefore?.rawValue
    }

    package var cells: [TextTable.Cell] {
        [
            .text("at", at), .text("by", by, least: 8), .text("action", action), .text("row", row),
            .text("name", name, least: 12), .text("because", because, least: 12),
        ]
    }
}

/// A lane.
package struct LaneItem: AnswerRow {
    package var lane: String
    package var concurrency: Int?
    package var rateCount: Int?
    package var rateMilliseconds: Int64?
    package var isPaused: Bool
    package var running: Int
    package var waiting: Int
    package var away: Int
    /// Why nothing starts, while handlers wait.
    package var why: String?

    package static let columns = [
        "lane", "concurrency", "rateCount", "rateMilliseconds", "isPaused", "running", "waiting", "away",
        "why",
    ]

    package init(_ lane: LaneStatus) {
        self.lane = lane.name
        (concurrency, rateCount) = (lane.rule.concurrency, lane.rule.rate?.count)
        rateMilliseconds = lane.rule.rate?.period.milliseconds
        (isPaused, running, waiting, away) = (lane.isPaused, lane.running, lane.waiting, lane.away)
        why = lane.standstill.map { "\($0)" }
    }

    package var cells: [TextTable.Cell] {
        [
            .text("lane", lane, least: 8), .number("at once", concurrency),
            .text("rate", rateCount.map { "\($0) in \(Span.text(rateMilliseconds ?? 0))" }),
            .number("running", running), .number("waiting", waiting), .number("away", away),
            .text("why nothing starts", isPaused ? why ?? "it is paused" : why, least: 24),
        ]
    }
}

/// A timer that is called again and again.
package struct TimerItem: AnswerRow {
    package var row: String
    package var handler: String
    package var key: String?
    /// Such as `every 5 min`, or `by '0 9 * * *' in UTC`.
    package var rule: String
    package var isPaused: Bool
    package var state: HandlerStatus.State
    /// The next times, of which a period has one.
    package var next: [String]
    private var left: Int64?

    package static let columns = ["row", "handler", "key", "rule", "isPaused", "state", "next"]

    private enum CodingKeys: CodingKey { case row, handler, key, rule, isPaused, state, next }

    package init(_ status: HandlerStatus, rule: String, isPaused: Bool, next: [Timestamp], now: Timestamp) {
        (row, handler, key, state) = ("\(status.id)", status.name, status.key, status.state)
        (self.rule, self.isPaused) = (rule, isPaused)
        self.next = next.map { "\($0)" }
        left = next.first.map { ($0 - now).milliseconds }
    }

    package var cells: [TextTable.Cell] {
        [
            .text("row", row), .text("handler", handler, least: 12), .text("rule", rule, least: 12),
            .text("state", isPaused ? "paused" : state.rawValue), .span("left", left),
            .text("next", next.first),
        ]
    }
}

/// What happened to the handlers of a name.
package struct ActivityItem: AnswerRow {
    package var handler: String
    package var bound: Int64
    package var ended: Int64
    package var failed: Int64
    package var retried: Int64
    package var waitP50Milliseconds: Double?
    package var waitP99Milliseconds: Double?
    package var runP50Milliseconds: Double?
    package var runP99Milliseconds: Double?

    package static let columns = [
        "handler", "bound", "ended", "failed", "retried", "waitP50Milliseconds", "waitP99Milliseconds",
        "runP50Milliseconds", "runP99Milliseconds",
    ]

    package init(_ name: String, _ activity: HandlerActivity) {
        handler = name
        (bound, ended) = (activity.bound, activity.ended)
        (failed, retried) = (activity.failed, activity.retried)
        let milliseconds = { (time: Duration?) in time.map { $0 / .microseconds(1000) } }
        waitP50Milliseconds = milliseconds(activity.waits.quantile(0.5))
        waitP99Milliseconds = milliseconds(activity.waits.quantile(0.99))
        runP50Milliseconds = milliseconds(activity.runs.quantile(0.5))
        runP99Milliseconds = milliseconds(activity.runs.quantile(0.99))
    }

    package var cells: [TextTable.Cell] {
        let most = { (time: Double?) in time.map { $0 < 1 ? "≤ \($0) ms" : "≤ \(Span.text(Int64($0)))" } }
        return [
            .text("handler", handler, least: 12), .number("bound", bound), .number("ended", ended),
            .number("failed", failed), .number("retried", retried),
            .text("wait p50", most(waitP50Milliseconds)), .text("p99", most(waitP99Milliseconds)),
            .text("run p50", most(runP50Milliseconds)), .text("p99 ", most(runP99Milliseconds)),
        ]
    }
}

/// An entry of the journal of a workflow.
package struct JournalItem: AnswerRow {
    package var position: Int64
    package var operation: String
    package var at: String
    /// The handler that fills the entry.
    package var waiter: String?
    package var value: JSONValue?
    package var error: String?

    package static let columns = ["position", "operation", "at", "waiter", "value", "error"]

    package var cells: [TextTable.Cell] {
        let result = value.flatMap { try? OperatorJSON.text($0) }
        let waits = waiter.map { "waits for the handler \($0)" } ?? "waits"
        return [
            .number("at", position), .text("operation", operation, least: 12), .text("started", at),
            .text("result", result ?? error.map { "failed: \($0)" } ?? waits, least: 16),
        ]
    }
}
