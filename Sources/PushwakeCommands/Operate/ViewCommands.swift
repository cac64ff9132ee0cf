import FoundationEssentials
import Handlers
package import XMPPCore

/// `pushwake node list`: shows the processes or nodes that have a store open.
package struct NodeCommand {
    package let options: OperateOptions

    package init(
        _ words: [String], _ opener: StoreOpener,
        say: @escaping (VisibleText) -> Void = { Terminal.say($0) }
    ) throws {
        options = try OperateOptions(words, of: "node", opener, say: say)
        _ = try options.verb(of: "node")
    }

    package func run() throws -> Int32 {
        let reader = try options.reader()
        let (nodes, now) = try reader.read { (try StoreContents.processes(reader, $0), $0.now) }
        var writer = options.writing(StoreContents.Process.self)
        try writer.add(nodes)
        try writer.end(now, none: "no process has the store open")
        return 0
    }
}

extension StoreContents.Process: AnswerRow {
    package static let columns = [
        "slot", "pid", "state", "handler", "application", "address", "clockAhead",
    ]

    package var cells: [TextTable.Cell] {
        [
            .number(pid == nil ? "node" : "slot", slot), .number("process", pid), .text("state", state),
            .number("runs the handler", handler), .text("application", application),
            .text("address", address),
        ]
    }
}

/// `pushwake workflow show`: shows the journal of a workflow that has not ended.
package struct WorkflowCommand {
    package let options: OperateOptions
    private let row: AnyHandlerID

    package init(
        _ words: [String], _ opener: StoreOpener,
        say: @escaping (VisibleText) -> Void = { Terminal.say($0) }
    ) throws {
        options = try OperateOptions(words, of: "workflow", opener, wordCount: 2, say: say)
        _ = try options.verb(of: "workflow")
        guard let row = options.arguments.words.dropFirst().first else {
            throw UsageError("'workflow show' takes the ROW of a workflow")
        }
        self.row = try OperateOptions.row(row)
    }

    package func run() throws -> Int32 {
        let start = try options.arguments.number("--after", in: 0...Int.max, default: 0) - 1
        let limit = options.arguments.value("--limit") == nil ? 10_000 : try options.limit()
        let (row, first) = (row, options.arguments.value("--after") == nil ? -1 : start + 1)
        let (items, status, now) = try options.reader().read { snapshot in
            let items = try snapshot.all(
                """
                SELECT position, operation, at, waiter, value, error FROM journal
                WHERE handler = ? AND position > ? ORDER BY position LIMIT ?
                """, row, first, limit
            ) { row in
                JournalItem(
                    position: row.integer(0), operation: row.text(1), at: "\(row.timestamp(2))",
                    waiter: row.optionalInteger(3).map { "\($0)" },
                    value: row.isNull(4) ? nil : Self.value(row.blob(4)), error: row.optionalText(5))
            }
            return (items, try snapshot.status(of: row), snapshot.now)
        }
        guard let status else { throw CommandFailure("the handler \(row) has ended or never existed") }
        var writer = options.writing(JournalItem.self)
        try writer.add(items)
        try writer.end(
            now, next: items.count == limit ? items.last.map { "\($0.position)" } : nil,
            none: "the handler \(row) (\(status.name)) has no journal")
        return 0
    }

    /// The value of an operation, with secrets masked.
    private static func value(_ bytes: [UInt8]) -> JSONValue {
        let text = Masking.text(bytes)
        return (try? JSONDecoder().decode(JSONValue.self, from: Data(text.utf8))) ?? .string(text)
    }
}

/// `pushwake stats`: shows what happened to handlers in the last time, by name.
package struct StatsCommand {
    package let options: OperateOptions
    private let span: Duration

    package init(
        _ words: [String], _ opener: StoreOpener,
        say: @escaping (VisibleText) -> Void = { Terminal.say($0) }
    ) throws {
        options = try OperateOptions(words, of: "stats", opener, wordCount: 0, say: say)
        span =
            try options.arguments.value("--since").map { try OperateOptions.time($0, of: "--since") }
            ?? .seconds(3600)
    }

    package func run() throws -> Int32 {
        let span = span
        let (activity, now) = try options.reader().read {
            (try $0.activity(since: $0.now - span), $0.now)
        }
        let name = options.arguments.value("--name")
        let chosen = activity.filter { name == nil || $0.key == name }.sorted {
            ($1.value.ended, $0.key) < ($0.value.ended, $1.key)
        }
        var writer = options.writing(ActivityItem.self)
        try writer.add(chosen.prefix(try options.limit()).map { ActivityItem($0.key, $0.value) })
        if options.format == .text, chosen.count > 1 {
            var total = HandlerActivity()
            for (_, activity) in chosen { total.add(activity) }
            try writer.add([ActivityItem("(all)", total)])
        }
        try writer.end(now, none: "nothing happened to any handler in that time")
        return 0
    }
}
