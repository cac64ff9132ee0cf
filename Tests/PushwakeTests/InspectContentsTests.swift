import Foundation
import Handlers
import Simulation
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPModules
import TestServers

@testable import PushwakeCommands

/// What a person sees of a store that any process has open.
@Suite(.ownThread, .timeLimit(.minutes(5)))
struct InspectContentsTests {
    private let folder: TemporaryFolder
    private var path: String { folder.path + "/store.db" }

    struct Answered: Handler {
        static let id = "inspect-test.answered"
        func run(_ call: borrowing Call<TimerFired>) throws {}
    }

    init() throws { folder = try TemporaryFolder() }

    private func inspect(_ words: String...) throws -> ProgramEnding {
        try ProgramEnding(of: "pushwake", ["inspect", "--store", path] + words)
    }

    private func contents() throws -> StoreContents {
        try StoreContents(StoreReader(path: path, schemas: Account.schemas), limit: 20)
    }

    /// A store as an account leaves it in the middle of its work.
    private func makeStore() throws -> HandlerStore {
        let store = try HandlerStore(
            path: path, registry: HandlerRegistry([Answered.self]), schemas: Account.schemas,
            synchronous: .normal)
        try store.step { step in
            let waiting = try step.bind(Answered().durable)
            _ = try step.schedule(Answered().durable, after: .seconds(300))
            _ = try step.schedule(Answered().durable, after: .seconds(60), every: .seconds(60))
            _ = try step.bind(Answered().durable, timeout: .seconds(30))
            try step.end(
                try step.bind(Answered().durable), .error, with: TimerFired(dueAt: Timestamp(milliseconds: 1))
            )
            try step.execute("INSERT INTO account(id, jid) VALUES (1, 'alice@localhost')")
            try step.execute("INSERT INTO ownership VALUES (1, 7, 'main', 0)")
            try step.execute(
                """
                INSERT INTO session(account, number, open_number, resumption_id, max, alive_at, full_jid, received, acknowledged,
                    connected_time, bound_count, resumed_count)
                VALUES (1, 3, 3, 'hush-resumption', 600, ?, 'alice@localhost/r', 11, 22, 1000, 3, 4)
                """, step.now)
            try step.execute(
                "INSERT INTO request VALUES (1, 'q1', 'bob@localhost/peer', 3, ?, 61000, 0, NULL, NULL)",
                waiting)
            try step.execute(
                "INSERT INTO outbox(account, session, kind, stanza_id, xml, created_at) VALUES (1, NULL, 0, 'm1', ?, ?)",
                "<message><body>hush-body</body></message>", step.now - .seconds(5))
        }
        return store
    }

    private struct Rang: DurableEvent {
        static let id = "inspect-test.rang"
        var bell: Int
    }

    @Test("W8 inspect counts the events that wait, by name")
    func events() throws {
        let store = try HandlerStore(path: path, registry: HandlerRegistry(), synchronous: .normal)
        try store.step { step in for bell in 1...3 { try step.post(Rang(bell: bell)) } }
        let contents = try contents()
        #expect(contents.events == 3 && contents.namedEvents.map(\.event) == ["inspect-test.rang"])
        let text = try inspect().output
        #expect(text.contains("events: 3\n  count  event\n      3  inspect-test.rang\n"), "\(text)")
    }

    @Test("W8 inspect tells owner, session, requests, timers, outbox and endings, and nothing that is secret")
    func everything() throws {
        let store = try makeStore()
        let contents = try contents()
        let account = try #require(contents.accounts.first)
        #expect(account.ownership.epoch == 7 && account.ownership.owner == "main")
        #expect(account.ownership.pid == getpid() && account.ownership.state == "running")
        #expect(
            account.session.number == 3 && account.session.isResumable && account.session.window == 600_000)
        #expect(account.session.received == 11 && account.session.acknowledged == 22)
        let request = try #require(contents.requests.shown.first)
        #expect(request.peer == "bob@localhost/peer" && request.handler == "inspect-test.answered")
        #expect(request.connectedLeft == 60_000 && (0..<60_000).contains(request.age) && request.session == 3)
        #expect(contents.timers.shown.map(\.kind) == [.periodic, .timer, .deadline])
        #expect(contents.timers.shown.map { $0.connectedLeft != nil } == [false, false, true])
        let stanza = try #require(contents.outbox.shown.first)
        #expect(stanza.kind == "message" && stanza.age >= 5000 && stanza.session == nil && stanza.bytes == 41)
        #expect(contents.endings == ["error": 1] && contents.lastEndings.map(\.outcome) == ["error"])
        #expect(contents.processes.map(\.pid) == [getpid()])
        let text = try inspect()
        let json = try inspect("--json")
        for said in [text, json] {
            #expect(said.status == 0 && said.output.contains("bob@localhost/peer"), "\(said)")
            #expect(!said.output.contains("hush"), "\(said)")
        }
        withExtendedLifetime(store) {}
    }

    struct Failing: Handler {
        static let id = "inspect-test.failing"
        static let retry = RetryPolicy.never
        struct Failure: Error {}
        func run(_ call: borrowing Call<TimerFired>) throws { throw Failure() }
    }

    @Test("W8 inspect shows the bytes of each kept call and how many calls were dropped")
    func droppedCalls() throws {
        let store = try HandlerStore(
            path: path, registry: HandlerRegistry([Failing.self]), schemas: Account.schemas,
            synchronous: .normal)
        try store.step { step in
            let id = try step.bindStanding(Failing().durable)
            for number in Int64(0)..<1003 {
                _ = try step.call(id, with: TimerFired(dueAt: Timestamp(milliseconds: number)))
            }
            _ = try step.execute("UPDATE dropped_call SET last_at = ?", step.now - .seconds(65))
        }
        let contents = try contents()
        let dropped = try #require(contents.dropped.first)
        #expect(contents.dropped.count == 1)
        #expect(dropped.handler == "inspect-test.failing" && dropped.calls == 3 && dropped.bytes > 3)
        #expect(dropped.age >= 65_000)
        #expect(contents.quarantined.count == 1000)
        let sizes = contents.quarantined.shown.map(\.size)
        #expect(sizes.count == 20 && sizes.allSatisfy { ($0 ?? 0) > 0 }, "\(sizes)")
        let text = try inspect("--limit", "1")
        let lines = text.output.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        #expect(lines.contains(["dropped:", "3"]), "\(text)")
        let row = try #require(lines.first { $0.starts(with: ["3", "inspect-test.failing"]) }, "\(text)")
        #expect(row[2] == "\(dropped.bytes)" && row.last == "s", "\(row)")
        let kept = try #require(lines.first { $0.dropFirst().first == "inspect-test.failing@1" }, "\(text)")
        #expect(kept.contains("\(try #require(sizes[0]))"), "\(kept)")
        let json = try JSONSerialization.jsonObject(with: Data(try inspect("--json").output.utf8))
        let whole = try #require(json as? [String: Any])
        #expect((whole["dropped"] as? [[String: Any]])?.first?["calls"] as? Int == 3)
        let shown = (whole["quarantined"] as? [String: Any])?["shown"] as? [[String: Any]]
        #expect(shown?.first?["size"] as? Int64 == sizes[0])
        withExtendedLifetime(store) {}
    }

    @Test("W8 lists say how many there are when they show fewer")
    func limit() throws {
        let store = try makeStore()
        let shown = try inspect("--limit", "1")
        #expect(shown.output.contains("timers: 3") && shown.output.contains("and 2 more"), "\(shown)")
        withExtendedLifetime(store) {}
    }

    @Test(
        "H33 a handler that a request, a stanza or a listener holds is ended by hand, and these with it",
        arguments: ["discard", "invalidate"])
    func release(_ action: String) throws {
        let store = try makeStore()
        let ids = try store.step { step in
            let asking = try step.first("SELECT handler FROM request") { (row) throws(HandlerError) in
                row.integer(0)
            }
            let listening = try step.bindStanding(Answered().durable)
            try step.execute("INSERT INTO listener VALUES (1, 'message', 'test', ?)", listening)
            try step.execute("UPDATE outbox SET handler = ?", asking)
            return [asking ?? 0, listening.rawValue]
        }
        for id in ids {
            let ending = try ProgramEnding(of: "pushwake", ["handler", action, "\(id)", "--store", path])
            #expect(ending.status == 0, "\(ending)")
        }
        for table in ["request", "listener"] {
            let left = try store.step { step in
                try step.first("SELECT count(*) FROM \(table)") { (row) throws(HandlerError) in row.integer(0)
                }
            }
            #expect(left == 0, "\(table)")
        }
        let stanzas = try store.step { step in
            try step.all("SELECT handler FROM outbox") { (row) throws(HandlerError) in row.optionalInteger(0)
            }
        }
        #expect(stanzas == [nil], "the stanza is counted all the same")
        for id in ids {
            let ended = try store.step { try $0.ending(of: AnyHandlerID(rawValue: id)) }
            #expect(ended?.reason == (action == "discard" ? .discarded : .byHand))
        }
    }

    @Test("W8 a main that is frozen inside a transaction is inspected at once and shown as stopped")
    func frozen() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let simulation = SimulationRun(
            .init(rounds: 1, kills: 0, seed: 1), world: world, folder: folder.path,
            program: try BuiltProduct.path("pushwake"), complain: { print($0) })
        // By then it owns the account and sends; on a busy machine it may not yet, and the next one is frozen.
        var main = try simulation.startFrozen(at: .beforeCommit, nth: 40)
        defer { main.killAndWait() }
        var shown = try inspect()
        for _ in 0..<8 where !shown.output.contains("main, process") {
            main.killAndWait()
            main = try simulation.startFrozen(at: .beforeCommit, nth: 40)
            shown = try inspect()
        }
        #expect(shown.status == 0, "\(shown)")
        #expect(shown.output.contains("main, process \(main.processID), stopped"), "\(shown)")
        #expect(shown.output.contains("simulation.answered"), "\(shown)")
        // A caller that wants to write is told why it cannot be.
        let refused = try ProgramEnding(of: "pushwake", ["handler", "discard", "1", "--store", path])
        #expect(
            refused.status == 1 && refused.complaint.contains("is locked by another process"), "\(refused)")
    }

    @Test("W8 inspect says clearly when a file is no store, or there is none, and leaves it as it is")
    func noStore() throws {
        let missing = try ProgramEnding(
            of: "pushwake", ["handler", "requeue", "--all", "--yes", "--store", path])
        #expect(missing.status == 1 && missing.complaint.contains("name the database file"), "\(missing)")
        try Data().write(to: URL(filePath: path))
        let empty = try ProgramEnding(
            of: "pushwake", ["handler", "discard", "7", "--store", path])
        #expect(empty.status == 1 && empty.complaint.contains("holds no store: it is empty"), "\(empty)")
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["store.db"])
        #expect(try Data(contentsOf: URL(filePath: path)).isEmpty)
    }

    // MARK: For people

    @Test(
        "W8 a table fits the terminal: columns give way, then rows become lines; no text steers the terminal")
    func narrow() {
        var table = TextTable([
            .init(name: "row", isNumber: true), .init(name: "handler", least: 8),
            .init(name: "reason", least: 8),
        ])
        table.add(["7", "demo.handler", "the \u{1B}[31mprinter\nis on fire"])
        #expect(
            table.lines(width: nil) == [
                "row  handler       reason",
                "  7  demo.handler  the \\u{1B}[31mprinter\\u{A}is on fire",
            ])
        for width in 8...60 {
            let lines = table.lines(width: width)
            #expect(width < 19 || lines.allSatisfy { TextTable.width(of: $0) <= width }, "\(width): \(lines)")
            #expect(lines.joined().contains("7"))
        }
        #expect(
            table.lines(width: 20) == [
                "- row      7", "  handler  demo.hand", "           ler", "  reason   the \\u{1B",
                "           }[31mprin", "           ter\\u{A}i", "           s on fire",
            ])
        #expect(TextTable.width(of: "日本") == 4)
    }

    @Test("W8 colors are for terminals, and NO_COLOR keeps them away")
    func colors() throws {
        let store = try makeStore()
        let colored = try contents().text(TerminalStyle(width: 80, isColored: true)).description
        let plain = try contents().text(TerminalStyle(width: 80)).description
        #expect(colored.contains("\u{1B}[1m") && !plain.contains("\u{1B}"))
        #expect(!TerminalStyle.hasColor(["NO_COLOR": "1", "TERM": "xterm"]))
        #expect(TerminalStyle.hasColor(["NO_COLOR": "", "TERM": "xterm"]))
        #expect(!TerminalStyle.hasColor(["TERM": "dumb"]))
        // Not on a pipe.
        #expect(!(try inspect().output.contains("\u{1B}")))
        withExtendedLifetime(store) {}
    }

    @Test("W8 times are said in the two largest units")
    func spans() {
        let spans: [(Int64, String)] = [
            (0, "0 ms"), (999, "999 ms"), (59_999, "59 s"), (200_000, "3 min 20 s"), (3_600_000, "1 h"),
            (100 * 3_600_000, "4 d 4 h"), (-2000, "-2 s"),
        ]
        for (milliseconds, text) in spans { #expect(Span.text(milliseconds) == text) }
    }
}
