import Handlers
package import XMPPCore

/// The text that `inspect` shows.
extension StoreContents {
    package func text(_ style: TerminalStyle) -> VisibleText {
        var lines = [style.heading("store"), "  \(store)"] + headLines(style)
        lines += processLines(style)
        for account in accounts { lines += accountLines(account, style) }
        lines += Self.section("requests", requests, requestTable, style)
        lines += Self.section("timers", timers, timerTable, style)
        lines += Self.section("lanes", lanes, laneTable, style)
        lines += Self.section("outbox", outbox, outboxTable, style)
        lines += Self.section("running", running, table(running: running), style)
        lines += Self.section("parked", parked, table(of: parked), style)
        lines += Self.section(
            "quarantined", quarantined, table(of: quarantined), style)
        lines += Self.section(
            "dropped", dropped.reduce(0) { $0 &+ Int64($1.calls) }, droppedTable, nil, style)
        lines += Self.section("pending", pending.reduce(0) { $0 + $1.count }, names(pending), nil, style)
        lines += Self.section("standing", standing.reduce(0) { $0 + $1.count }, names(standing), nil, style)
        lines += Self.section("handlers", handlers, Self.table(waiting: handlers.shown), style)
        lines += Self.section("events", events, eventTable, nil, style)
        lines += endingLines(style)
        return VisibleText(joining: lines)
    }

    // MARK: Sections

    /// - Parameter shown: The number of rows in the table; nil if it shows all rows in another form.
    private static func section(
        _ name: String, _ count: Int64, _ table: TextTable?, _ shown: Int?, _ style: TerminalStyle
    ) -> [VisibleText] {
        let isBad = ["parked", "quarantined", "dropped"].contains(name)
        let title: VisibleText = "\(name): \(count == 0 ? "none" : String(count))"
        var lines: [VisibleText] = ["", isBad && count > 0 ? style.warning(title) : style.heading(title)]
        guard count > 0, let table else { return lines }
        lines += indented(table, style)
        if let shown, shown < count {
            lines.append(style.faint("  and \(count - Int64(shown)) more; --limit N shows N"))
        }
        return lines
    }

    /// A section with the first rows of a list.
    static func section<Row>(
        _ name: String, _ rows: Rows<Row>, _ table: TextTable, _ style: TerminalStyle
    ) -> [VisibleText] {
        section(name, rows.count, table, rows.shown.count, style)
    }

    private static func indented(_ table: TextTable, _ style: TerminalStyle) -> [VisibleText] {
        let lines = table.lines(width: style.width.map { max(16, $0 - 2) }).map { VisibleText("  \($0)") }
        // The first line of a table contains the column names. Records have no such line.
        guard let first = lines.first, !first.description.hasPrefix("  - ") else { return lines }
        return [style.faint(first)] + lines.dropFirst()
    }

    private func processLines(_ style: TerminalStyle) -> [VisibleText] {
        let areNodes = processes.contains { $0.pid == nil }
        let table = TextTable(processes) {
            areNodes
                ? [
                    .number("node", $0.slot), .text("state", $0.state), .text("application", $0.application),
                    .text("address", $0.address), .number("handler", $0.handler),
                ]
                : [
                    .number("process", $0.pid), .text("state", $0.state), .number("slot", $0.slot),
                    .number("handler", $0.handler),
                ]
        }
        return Self.section("open in", Int64(processes.count), table, processes.count, style)
            + clockLines(style) + stepLockLines(style)
    }

    private func clockLines(_ style: TerminalStyle) -> [VisibleText] {
        processes.compactMap { process -> VisibleText? in
            guard let ahead = process.clockAhead, abs(ahead) > 1000 else { return nil }
            return style.warning(
                "  the clock of \(process.name) is \(Span.text(abs(ahead))) \(ahead > 0 ? "ahead of" : "behind") the server's"
            )
        }
    }

    private func stepLockLines(_ style: TerminalStyle) -> [VisibleText] {
        guard let stepLock else { return [] }
        let whose = [stepLock.application, stepLock.address].compactMap(\.self).joined(separator: " at ")
        let line: VisibleText =
            "  the lock of steps is held by process \(stepLock.pid) of the server\(whose.isEmpty ? "" : " (\(whose))"), \(stepLock.waiting) waiting"
        return [stepLock.waiting > 0 ? style.warning(line) : style.faint(line)]
    }

    private func accountLines(_ account: Account, _ style: TerminalStyle) -> [VisibleText] {
        let (ownership, session) = (account.ownership, account.session)
        let fields = [
            ("owner", owner(ownership)), ("session", stream(session)), ("resumable", resumability(session)),
            (
                "counts",
                "\(session.received) received, \(session.acknowledged) acknowledged by the server, \(session.deferred) not handled yet"
            ),
            (
                "so far",
                "bound \(Terminal.count(session.timesBound, "time")), resumed \(Terminal.count(session.timesResumed, "time"))"
            ),
        ]
        return ["", style.heading("account \(account.jid)")]
            + TextTable.fields(fields, width: style.width.map { max(16, $0 - 2) }).map {
                VisibleText("  \($0)")
            }
    }

    private func stream(_ session: Session) -> String {
        guard session.number > 0 else { return "none yet" }
        let stream = session.hasStream ? "on a stream" : "without a stream"
        return "\(session.number), \(stream), bound as \(session.boundAs ?? "nothing")"
    }

    private func owner(_ ownership: Ownership) -> String {
        guard let owner = ownership.owner else { return "nobody (epoch \(ownership.epoch))" }
        let process =
            ownership.slot.map {
                "\(Process.name(pid: ownership.pid, slot: $0)), \(ownership.state ?? "unknown")"
            }
            ?? "its process is gone"
        return "\(owner), \(process) (epoch \(ownership.epoch))"
    }

    private func resumability(_ session: Session) -> String {
        guard session.isResumable else { return "no" }
        guard let window = session.window else { return "yes; the server did not say for how long" }
        guard !session.hasStream, let age = session.age else {
            return "yes, for \(Span.text(window)) after a break"
        }
        let left = window - age
        return left > 0
            ? "yes, for \(Span.text(left)) more" : "probably not: its time ended \(Span.text(-left)) ago"
    }

    private func endingLines(_ style: TerminalStyle) -> [VisibleText] {
        let total = endings.values.reduce(0, +)
        var lines = Self.section("endings", total, nil, nil, style)
        guard total > 0 else { return lines }
        let named = (Outcome.allCases.map { "\($0)" } + ["unknown"]).filter { endings[$0] != nil }
        let counts = TextTable(named) { [.text("outcome", $0), .number("handlers", endings[$0])] }
        lines += Self.indented(counts, style) + [style.faint("  the last ones:")]
        return lines + Self.indented(Self.table(endings: lastEndings), style)
    }

    // MARK: Tables

    private var requestTable: TextTable {
        TextTable(requests.shown) { row in
            [
                .number("row", row.row), .text("handler", row.handler, least: 12),
                .text("peer", row.peer ?? row.account, least: 12), .span("age", row.age),
                .span("connected time left", row.connectedLeft, or: "answered"),
                .text("sent", row.session.map { "session \($0)" } ?? "no"), .text("id", row.id, least: 8),
            ]
        }
    }

    private var timerTable: TextTable {
        TextTable(timers.shown) { row in
            [
                .number("row", row.row), .text("handler", row.handler, least: 12),
                .text(
                    "kind",
                    row.calendar.map { "by \($0)" } ?? row.period.map { "every \(Span.text($0))" }
                        ?? row.kind.rawValue),
                .span("left", row.left), .span("connected time left", row.connectedLeft),
                .number("attempts", row.attempts), .text("arguments", row.arguments, least: 8),
                .text("reason", row.reason, least: 6),
            ]
        }
    }

    private var laneTable: TextTable {
        TextTable(lanes.shown) { row in
            [
                .text("lane", row.name, least: 8), .number("at once", row.concurrency),
                .text("rate", row.rate), .number("running", row.running), .number("waiting", row.waiting),
                .number("away", row.away), .text("why nothing starts", row.why, least: 24),
            ]
        }
    }

    private var outboxTable: TextTable {
        TextTable(outbox.shown) { row in
            [
                .number("seq", row.seq), .text("kind", row.kind), .number("bytes", row.bytes),
                .span("age", row.age), .text("written", row.session.map { "session \($0)" } ?? "no"),
                .text("id", row.id, least: 8), .text("handler", row.handler, least: 7),
            ]
        }
    }

    private func table(of handlers: Rows<Handler>) -> TextTable {
        TextTable(handlers.shown) { row in
            [
                .number("row", row.row), .text("handler", "\(row.handler)@\(row.version)", least: 12),
                .span("age", row.age), .number("attempts", row.attempts), .number("deaths", row.deaths),
                .number("bytes", row.size), .text("reason", row.reason, least: 16),
                .text("arguments", row.arguments, least: 8),
            ]
        }
    }

    private func table(running: Rows<Handler>) -> TextTable {
        TextTable(running.shown) { row in
            [
                .number("row", row.row), .text("handler", "\(row.handler)@\(row.version)", least: 12),
                .span("runs since", row.runs), .span("age", row.age), .number("attempts", row.attempts),
                .number("deaths", row.deaths), .text("why", row.why, least: 12),
                .text("arguments", row.arguments, least: 8),
            ]
        }
    }

    private var droppedTable: TextTable {
        TextTable(dropped) {
            [
                .number("calls", $0.calls), .text("handler", $0.handler, least: 12),
                .number("bytes", $0.bytes), .span("last", $0.age),
            ]
        }
    }

    private func names(_ named: [Named]) -> TextTable {
        TextTable(named) { [.number("count", $0.count), .text("handler", $0.handler, least: 12)] }
    }

    private var eventTable: TextTable {
        TextTable(namedEvents) { [.number("count", $0.count), .text("event", $0.event, least: 12)] }
    }

    /// The table of handlers that have not ended, with the reasons why.
    static func table(waiting handlers: [Handler]) -> TextTable {
        let hasKeys = handlers.contains { $0.key != nil }
        return TextTable(handlers) { row in
            [
                .number("row", row.row), .number("chain", row.trace),
                .text("handler", "\(row.handler)@\(row.version)", least: 12),
            ] + (hasKeys ? [.text("key", row.key, least: 6)] : []) + [
                .span("age", row.age), .text("why", row.why, least: 24),
                .text("arguments", row.arguments, least: 8),
            ]
        }
    }

    static func table(endings: [Ending]) -> TextTable {
        let hasKeys = endings.contains { $0.key != nil }
        let hasErrors = endings.contains { $0.error != nil }
        return TextTable(endings) { row in
            [
                .number("row", row.row), .number("chain", row.trace),
                .text("handler", row.handler, least: 12),
            ] + (hasKeys ? [.text("key", row.key, least: 6)] : []) + [
                .text("outcome", row.outcome), .span("ago", row.age), .text("reason", row.reason, least: 8),
            ] + (hasErrors ? [.text("error", row.error, least: 16)] : [])
        }
    }
}
