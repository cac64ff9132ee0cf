import FoundationEssentials
import Glibc
import Handlers
package import XMPPCore

/// `pushwake handler`: shows handlers that have not ended, and changes them.
package struct HandlerCommand {
    private static let repairs: [String: HandlerRepair] = [
        "requeue": .requeue, "invalidate": .invalidate, "discard": .discard, "run-now": .runNow,
    ]
    /// The number of handlers that one read shows.
    private static let page = 500

    package let options: OperateOptions
    private let verb: String
    private let query: HandlerQuery
    private let rows: [AnyHandlerID]
    private let start: AnyHandlerID?

    package init(
        _ words: [String], _ opener: StoreOpener,
        say: @escaping (VisibleText) -> Void = { Terminal.say($0) }
    ) throws {
        options = try OperateOptions(words, of: "handler", opener, wordCount: 1001, say: say)
        verb = try options.verb(of: "handler")
        query = try Self.query(options.arguments)
        let rest = options.arguments.words.dropFirst()
        rows = try verb == "signal" ? [] : rest.map { try OperateOptions.row($0) }
        start = try options.arguments.value("--after").map { try OperateOptions.row($0) }
        switch verb {
        case "list" where !rows.isEmpty:
            throw UsageError("'handler list' takes filters and no row; 'handler show ROW' shows one handler")
        case "show" where rows.count != 1: throw UsageError("'handler show' takes one ROW")
        case "signal" where !(1...2 ~= rest.count):
            throw UsageError("'handler signal' takes KEY and a JSON value")
        default: break
        }
        guard Self.repairs[verb] != nil else { return }
        let all = options.arguments.has("--all")
        guard [!rows.isEmpty, !query.isEmpty, all].filter({ $0 }).count == 1 else {
            throw UsageError("'handler \(verb)' takes the rows of handlers, or filters, or --all")
        }
    }

    private static func query(_ arguments: Arguments) throws(UsageError) -> HandlerQuery {
        var query = try HandlerFilter(arguments).query
        if let age = arguments.value("--older") {
            query.boundBefore = TimeSource.system.wall() - (try OperateOptions.time(age, of: "--older"))
        }
        return query
    }

    package func run() throws -> Int32 {
        switch verb {
        case "list": return try list()
        case "show": return try show(rows[0])
        case "signal": return try signal()
        default:
            guard let repair = Self.repairs[verb] else { return 64 }
            return try rows.isEmpty ? change(repair) : change(rows, repair)
        }
    }

    // MARK: Showing

    private func list() throws -> Int32 {
        let reader = try options.reader()
        var writer = options.writing(HandlerItem.self)
        var (start, left, now) = (start, try options.limit(), Timestamp(milliseconds: 0))
        repeat {
            let page = try Self.items(reader, query, after: start, limit: min(left, Self.page))
            try writer.add(page.items)
            (start, now) = (page.next, page.now)
            left -= page.items.count
        } while start != nil && left > 0 && !Terminal.isClosed
        try writer.end(now, next: start.map { "\($0)" }, none: "no handler")
        return 0
    }

    private static func items(
        _ reader: StoreReader, _ query: HandlerQuery, after start: AnyHandlerID?, limit: Int
    ) throws -> (items: [HandlerItem], next: AnyHandlerID?, now: Timestamp) {
        try reader.read { snapshot in
            let waits = try WaitReader(snapshot, StoreContents.processes(reader, snapshot))
            let page = try snapshot.handlers(matching: query, after: start, limit: limit)
            var items: [HandlerItem] = []
            for status in page.handlers {
                let why = try waits.handler(status, snapshot).why
                items.append(HandlerItem(status, why: why, now: snapshot.now))
            }
            return (items, page.next, snapshot.now)
        }
    }

    /// All about a handler, also about one that has ended.
    private struct Whole: Encodable {
        let format = 1
        let store: String
        let at: String
        let handler: HandlerItem?
        let ending: StoreContents.Ending?
        let failures: [FailureItem]
        let repairs: [RepairItem]
    }

    private func show(_ id: AnyHandlerID) throws -> Int32 {
        let reader = try options.reader()
        let whole = try reader.read { snapshot in
            let waits = try WaitReader(snapshot, StoreContents.processes(reader, snapshot))
            let status = try snapshot.status(of: id)
            let now = snapshot.now
            return Whole(
                store: options.store.text, at: "\(now)",
                handler: try status.map { (status) throws(HandlerError) in
                    HandlerItem(status, why: try waits.handler(status, snapshot).why, now: now)
                },
                ending: try snapshot.ending(of: id).map { StoreContents.Ending($0, now: now) },
                failures: try snapshot.failures(of: id).map(FailureItem.init),
                repairs: try snapshot.repairs(of: id).map(RepairItem.init))
        }
        guard whole.handler != nil || whole.ending != nil else {
            throw CommandFailure("the handler \(id) never existed, or its ending was forgotten")
        }
        guard options.format == .text else {
            options.say(VisibleText(json: try OperatorJSON.text(whole)))
            return 0
        }
        text(whole)
        return 0
    }

    private func text(_ whole: Whole) {
        let style = TerminalStyle.current()
        var fields: [(name: String, value: String)] = []
        if let handler = whole.handler {
            fields = [
                ("row", handler.row), ("handler", "\(handler.handler)@\(handler.version)"),
                ("state", handler.state.rawValue), ("why", handler.why), ("key", handler.key ?? ""),
                ("chain", handler.chain), ("bound", handler.boundAt), ("due", handler.dueAt ?? ""),
                ("started", handler.startedAt ?? ""), ("attempts", "\(handler.attempts)"),
                ("deaths", handler.deaths == 0 ? "" : "\(handler.deaths)"), ("reason", handler.reason ?? ""),
                ("arguments", (try? OperatorJSON.text(handler.arguments)) ?? ""),
            ]
        }
        if let ending = whole.ending {
            fields += [
                ("row", "\(ending.row)"), ("handler", ending.handler), ("key", ending.key ?? ""),
                ("outcome", ending.outcome), ("reason", ending.reason ?? ""),
                ("ended", "\(Span.text(ending.age)) ago"),
            ]
        }
        for line in TextTable.fields(fields.filter { !$0.value.isEmpty }, width: style.width) {
            options.say(VisibleText(line))
        }
        section("failures", whole.failures, style)
        section("changes by hand", whole.repairs, style)
    }

    private func section(_ name: VisibleText, _ rows: [some AnswerRow], _ style: TerminalStyle) {
        if rows.isEmpty { return }
        options.say("")
        options.say(style.heading(name))
        for line in TextTable(rows, \.cells).lines(width: style.width) { options.say(VisibleText(line)) }
    }

    // MARK: Changing

    /// What was done to a handler.
    private struct Done: AnswerRow {
        let row: String
        let handler: String
        let action: String
        /// Why it was not done; nil where it was.
        let refused: String?
        static let columns = ["row", "handler", "action", "refused"]
        var cells: [TextTable.Cell] {
            [
                .text("row", row), .text("handler", handler, least: 12),
                .text("done", refused.map { "not done: \($0)" } ?? action, least: 16),
            ]
        }
    }

    /// Changes some handlers by their rows: all of them, or none.
    private func change(_ rows: [AnyHandlerID], _ repair: HandlerRepair) throws -> Int32 {
        let author = options.author
        var names: [String] = []
        do {
            if options.arguments.has("--dry-run") {
                names = try options.reader().read { snapshot in
                    try rows.map { try Self.name(of: $0, snapshot) }
                }
            } else {
                names = try options.writer().step { step in
                    try rows.map { row in
                        let name = try Self.name(of: row, step)
                        if repair.ends { try AccountRows.release(row, step) }
                        try step.repair(row, repair, by: author)
                        return name
                    }
                }
            }
        } catch let error as HandlerError where !error.isStorageFailure {
            throw CommandFailure("\(error.message). Nothing was changed")
        }
        var writer = options.writing(Done.self)
        try writer.add(
            zip(rows, names).map {
                Done(row: "\($0)", handler: $1, action: Self.word(repair, options), refused: nil)
            })
        try writer.end(TimeSource.system.wall(), none: "")
        return 0
    }

    private static func name(of row: AnyHandlerID, _ source: borrowing some Readable) throws -> String {
        guard let name = try source.status(of: row)?.name else {
            throw CommandFailure("the handler \(row) has ended or never existed. Nothing was changed")
        }
        return name
    }

    private static func word(_ repair: HandlerRepair, _ options: OperateOptions) -> String {
        if options.arguments.has("--dry-run") { return "would be: \(repair.rawValue)" }
        return switch repair {
        case .requeue: "requeued, a runner of the program calls it"
        case .invalidate: "invalidated, what was bound for that case ran"
        case .discard: "discarded, nothing ran for it"
        case .runNow: "a runner of the program calls it now"
        case .pause: "paused"
        case .resume: "resumed"
        }
    }

    /// Changes the handlers that meet the filters, 1000 in a step.
    private func change(_ repair: HandlerRepair) throws -> Int32 {
        let found = try count(repair)
        if options.arguments.has("--dry-run") {
            return try end(
                repair, found.first, "\(found.count) handlers would be changed: \(repair.rawValue)")
        }
        guard found.count > 0 else { return try end(repair, [], "no handler is to be changed") }
        try confirm(repair, found.count)
        let store = try options.writer()
        var (done, refused, start) = (0, [(handler: HandlerStatus, reason: String)](), start)
        repeat {
            let page = try store.repair(query, repair, by: options.author, after: start) { id, step in
                try AccountRows.release(id, step)
            }
            done += page.repaired.count
            refused += page.refused
            start = page.next
            // A person who ends the command here sees how far it came, and the same command goes on.
            if let start { Terminal.writeError("\(done) changed; --after \(start) would go on\n") }
        } while start != nil
        let rows = refused.prefix(100).map {
            Done(
                row: "\($0.handler.id)", handler: $0.handler.name, action: repair.rawValue, refused: $0.reason
            )
        }
        _ = try end(
            repair, rows, "\(done) changed (\(repair.rawValue)), \(refused.count) not")
        return refused.isEmpty ? 0 : 1
    }

    private func end(_ repair: HandlerRepair, _ rows: [Done], _ sentence: VisibleText) throws -> Int32 {
        var writer = options.writing(Done.self)
        try writer.add(rows)
        if options.format == .text { options.say(sentence) }
        if options.format != .text || !rows.isEmpty {
            try writer.end(TimeSource.system.wall(), none: "")
        }
        return 0
    }

    /// The number of handlers that would be changed, and the first five of them.
    private func count(_ repair: HandlerRepair) throws -> (count: Int, first: [Done]) {
        let reader = try options.reader()
        var (count, first, start): (Int, [Done], AnyHandlerID?) = (0, [], start)
        repeat {
            let page = try reader.read { try $0.handlers(matching: query, after: start, limit: 1000) }
            let chosen = page.handlers.filter { repair.concerns($0) }
            count += chosen.count
            first += chosen.prefix(5 - first.count).map {
                Done(row: "\($0.id)", handler: $0.name, action: Self.word(repair, options), refused: nil)
            }
            start = page.next
        } while start != nil
        return (count, first)
    }

    /// A person types the number of handlers; a script says `--yes`.
    private func confirm(_ repair: HandlerRepair, _ count: Int) throws {
        if options.arguments.has("--yes") { return }
        guard isatty(STDIN_FILENO) == 1 else {
            throw UsageError(
                "\(repair.rawValue) would change \(count) handlers; --dry-run shows them, and --yes changes them without a question"
            )
        }
        Terminal.writeError("\(repair.rawValue): \(count) handlers. Type \(count) to change them: ")
        var lines = InputLines()
        guard lines.next() == String(count) else { throw CommandFailure("nothing was changed") }
    }

    private func signal() throws -> Int32 {
        let words = options.arguments.words
        let text = words.count > 2 ? words[2] : "null"
        let value =
            (try? JSONDecoder().decode(JSONValue.self, from: Data(text.utf8))) ?? .string(text)
        let author = options.author
        if options.arguments.has("--dry-run") {
            let holder = try options.reader().read { try $0.status(ofKey: words[1]) }
            options.say(
                holder.map { "the handler \($0.id) (\($0.name)) has the key and would be called" }
                    ?? "no handler has the key; the signal would wait")
            return 0
        }
        let disposition = try options.writer().step { try $0.signal(words[1], value, by: author) }
        options.say(
            disposition.map {
                $0 == .ended ? "the handler with the key was called" : "the signal was taken: \($0)"
            }
                ?? "no handler with the key waits for a signal; the signal waits for a week")
        return 0
    }
}

extension StoreContents.Ending {
    fileprivate init(_ ending: Handlers.Ending, now: Timestamp) {
        row = ending.handler.rawValue
        handler = ending.name
        outcome = "\(ending.outcome)"
        reason = ending.reason?.rawValue
        age = (now - ending.endedAt).milliseconds
        key = ending.key
        trace = ending.trace.rawValue
    }
}
