import Handlers
package import XMPPCore

/// `pushwake timer`: shows timers that are called again and again, pauses them and calls them now.
package struct TimerCommand {
    private static let repairs: [String: HandlerRepair] = [
        "pause": .pause, "resume": .resume, "run-now": .runNow,
    ]
    /// The number of next times of a calendar that are shown.
    private static let times = 10
    package let options: OperateOptions
    private let verb: String
    private let row: AnyHandlerID?

    package init(
        _ words: [String], _ opener: StoreOpener,
        say: @escaping (VisibleText) -> Void = { Terminal.say($0) }
    ) throws {
        options = try OperateOptions(words, of: "timer", opener, wordCount: 2, say: say)
        verb = try options.verb(of: "timer")
        row = try options.arguments.words.dropFirst().first.map { try OperateOptions.row($0) }
        guard (verb == "list") == (row == nil) else {
            throw UsageError(
                verb == "list" ? "'timer list' takes no row" : "'timer \(verb)' takes the ROW of a timer")
        }
    }

    package func run() throws -> Int32 {
        let reader = try options.reader()
        guard let row, let repair = Self.repairs[verb] else { return try list(reader) }
        if !options.arguments.has("--dry-run") {
            do {
                let author = options.author
                try options.writer().step { try $0.repair(row, repair, by: author) }
            } catch let error as HandlerError where !error.isStorageFailure {
                throw CommandFailure("\(error.message). Nothing was changed")
            }
        } else if options.format == .text {
            options.say("nothing was changed; the timer is now:")
        }
        let (items, now) = try reader.read { snapshot in
            (try Self.item(row, snapshot).map { [$0] } ?? [], snapshot.now)
        }
        var writer = options.writing(TimerItem.self)
        try writer.add(items)
        try writer.end(now, none: "no timer has the row \(row)")
        return 0
    }

    private func list(_ reader: StoreReader) throws -> Int32 {
        let start = try options.arguments.value("--after").map { try OperateOptions.row($0) }
        let limit = try options.limit()
        let (items, next, now) = try reader.read { snapshot in
            let rows = try snapshot.all(
                """
                SELECT id FROM handler WHERE kind = \(Transaction.Kind.standing.sql) AND period IS NOT NULL AND id > ?
                ORDER BY id LIMIT ?
                """, start?.rawValue ?? 0, limit
            ) { AnyHandlerID(rawValue: $0.integer(0)) }
            var items: [TimerItem] = []
            for row in rows { if let item = try Self.item(row, snapshot) { items.append(item) } }
            return (items, rows.count == limit ? rows.last : nil, snapshot.now)
        }
        var writer = options.writing(TimerItem.self)
        try writer.add(items)
        try writer.end(now, next: next.map { "\($0)" }, none: "no timer")
        return 0
    }

    private static func item(
        _ row: AnyHandlerID, _ snapshot: borrowing Snapshot
    ) throws -> TimerItem? {
        guard let status = try snapshot.status(of: row) else { return nil }
        let now = snapshot.now
        let calendar = try snapshot.first("SELECT expression, time_zone FROM calendar WHERE handler = ?", row)
        {
            "by '\($0.text(0))' in \($0.text(1))"
        }
        if let calendar {
            // A time zone that this machine does not know has no times here.
            let timer = try? snapshot.calendarTimer(row)
            return TimerItem(
                status, rule: calendar, isPaused: timer?.isPaused ?? false, next: timer?.times(times) ?? [],
                now: now)
        }
        let period = try snapshot.first(
            "SELECT period FROM handler WHERE id = ? AND period IS NOT NULL", row, read: { $0.quantity(0) })
        guard let period else { return nil }
        return TimerItem(
            status, rule: "every \(Span.text(period))",
            isPaused: status.state == .pending && status.dueAt == nil,
            next: status.dueAt.map { [$0] } ?? [], now: now)
    }
}
