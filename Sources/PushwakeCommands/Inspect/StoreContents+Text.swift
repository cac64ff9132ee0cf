import Handlers
package import XMPPCore

/// The text that `inspect` shows.
extension StoreContents {
    package func text(_ style: TerminalStyle) -> VisibleText {
        var lines = [style.heading("store"), "  \(store)"]
        lines += processLines(style)
        for account in accounts { lines += accountLines(account, style) }
        lines += section("requests", requests.count, requestTable, requests.shown.count, style)
        lines += section("timers", timers.count, timerTable, timers.shown.count, style)
        lines += section("outbox", outbox.count, outboxTable, outbox.shown.count, style)
        lines += section("running", running.count, table(of: running), running.shown.count, style)
        lines += section("parked", parked.count, table(of: parked), parked.shown.count, style)
        lines += section(
            "quarantined", quarantined.count, table(of: quarantined), quarantined.shown.count, style)
        lines += section("dropped", dropped.reduce(0) { $0 &+ Int64($1.calls) }, droppedTable, nil, style)
        lines += section("pending", pending.reduce(0) { $0 + $1.count }, names(pending), nil, style)
        lines += section("standing", standing.reduce(0) { $0 + $1.count }, names(standing), nil, style)
        lines += section("events", events, eventTable, nil, style)
        lines += endingLines(style)
        return VisibleText(joining: lines)
    }

    // MARK: Sections

    /// - Parameter shown: The number of rows in the table; nil if it shows all rows in another form.
    private func section(
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

    private func indented(_ table: TextTable, _ style: TerminalStyle) -> [VisibleText] {
        let lines = table.lines(width: style.width.map { max(16, $0 - 2) }).map { VisibleText("  \($0)") }
        // The first line of a table contains the column names. Records have no such line.
        guard let first = lines.first, !first.description.hasPrefix("  - ") else { return lines }
        return [style.faint(first)] + lines.dropFirst()
    }

    private func processLines(_ style: TerminalStyle) -> [VisibleText] {
        var table = TextTable([
            .init(name: "process", isNumber: true), .init(name: "state"), .init(name: "slot", isNumber: true),
            .init(name: "handler", isNumber: true),
        ])
        for process in processes {
            table.add([
                String(process.pid), process.state, String(process.slot),
                process.handler.map(String.init) ?? "",
            ])
        }
        return section("open in", Int64(processes.count), table, processes.count, style)
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
        let lockOwner =
            ownership.pid.map { "process \($0), \(ownership.state ?? "unknown")" }
            ?? "no process holds its lock"
        return "\(owner), \(lockOwner) (epoch \(ownership.epoch))"
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
        var lines = section("endings", total, nil, nil, style)
        guard total > 0 else { return lines }
        var counts = TextTable([.init(name: "outcome"), .init(name: "handlers", isNumber: true)])
        for outcome in Outcome.allCases.map({ "\($0)" }) + ["unknown"] {
            if let count = endings[outcome] { counts.add([outcome, String(count)]) }
        }
        lines += indented(counts, style) + [style.faint("  the last ones:")]
        return lines + indented(endingTable, style)
    }

    // MARK: Tables

    private var requestTable: TextTable {
        var table = TextTable([
            .init(name: "row", isNumber: true), .init(name: "handler", least: 12),
            .init(name: "peer", least: 12), .init(name: "age", isNumber: true),
            .init(name: "connected time left", isNumber: true), .init(name: "sent"),
            .init(name: "id", least: 8),
        ])
        for row in requests.shown {
            table.add([
                String(row.row), row.handler, row.peer ?? row.account, Span.text(row.age),
                row.connectedLeft.map(Span.text) ?? "answered", row.session.map { "session \($0)" } ?? "no",
                row.id,
            ])
        }
        return table
    }

    private var timerTable: TextTable {
        var table = TextTable([
            .init(name: "row", isNumber: true), .init(name: "handler", least: 12), .init(name: "kind"),
            .init(name: "left", isNumber: true), .init(name: "connected time left", isNumber: true),
            .init(name: "attempts", isNumber: true), .init(name: "arguments", least: 8),
            .init(name: "reason", least: 6),
        ])
        for row in timers.shown {
            let kind = row.period.map { "every \(Span.text($0))" } ?? row.kind.rawValue
            table.add([
                String(row.row), row.handler, kind, row.left.map(Span.text) ?? "",
                row.connectedLeft.map(Span.text) ?? "", String(row.attempts), row.arguments, row.reason ?? "",
            ])
        }
        return table
    }

    private var outboxTable: TextTable {
        var table = TextTable([
            .init(name: "seq", isNumber: true), .init(name: "kind"), .init(name: "bytes", isNumber: true),
            .init(name: "age", isNumber: true), .init(name: "written"), .init(name: "id", least: 8),
            .init(name: "handler", least: 7),
        ])
        for row in outbox.shown {
            table.add([
                String(row.seq), row.kind, String(row.bytes), Span.text(row.age),
                row.session.map { "session \($0)" } ?? "no", row.id ?? "", row.handler ?? "",
            ])
        }
        return table
    }

    private func table(of handlers: Rows<Handler>) -> TextTable {
        var table = TextTable([
            .init(name: "row", isNumber: true), .init(name: "handler", least: 12),
            .init(name: "age", isNumber: true), .init(name: "attempts", isNumber: true),
            .init(name: "deaths", isNumber: true), .init(name: "bytes", isNumber: true),
            .init(name: "reason", least: 16), .init(name: "arguments", least: 8),
        ])
        for row in handlers.shown {
            table.add([
                String(row.row), "\(row.handler)@\(row.version)", Span.text(row.age), String(row.attempts),
                String(row.deaths), row.size.map(String.init) ?? "", row.reason ?? "", row.arguments,
            ])
        }
        return table
    }

    private var droppedTable: TextTable {
        var table = TextTable([
            .init(name: "calls", isNumber: true), .init(name: "handler", least: 12),
            .init(name: "bytes", isNumber: true), .init(name: "last", isNumber: true),
        ])
        for row in dropped {
            table.add([String(row.calls), row.handler, String(row.bytes), Span.text(row.age)])
        }
        return table
    }

    private func names(_ named: [Named]) -> TextTable {
        var table = TextTable([.init(name: "count", isNumber: true), .init(name: "handler", least: 12)])
        for row in named { table.add([String(row.count), row.handler]) }
        return table
    }

    private var eventTable: TextTable {
        var table = TextTable([.init(name: "count", isNumber: true), .init(name: "event", least: 12)])
        for row in namedEvents { table.add([String(row.count), row.event]) }
        return table
    }

    private var endingTable: TextTable {
        var table = TextTable([
            .init(name: "row", isNumber: true), .init(name: "handler", least: 12), .init(name: "outcome"),
            .init(name: "ago", isNumber: true), .init(name: "reason", least: 8),
        ])
        for row in lastEndings {
            table.add([String(row.row), row.handler, row.outcome, Span.text(row.age), row.reason ?? ""])
        }
        return table
    }
}
