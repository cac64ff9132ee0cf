import Foundation
import Handlers
import PushwakeCommands
import Synchronization
import TestThreads
import Testing
import XMPPCore

/// Fails for good.
private struct Refused: Handler {
    static let id = "mail.refused"
    static let retry = RetryPolicy.never
    var order: JSONValue = .null
    var token = Secret("hush")
    func run(_ call: borrowing Call<TimerFired>) throws { throw Fault() }
}

private struct Fault: Error, CustomStringConvertible { let description = "the server is away" }

private struct Sent: Handler {
    static let id = "mail.sent"
    func run(_ call: borrowing Call<TimerFired>) throws {}
}

private struct Signaled: Handler {
    static let id = "shop.signaled"
    func run(_ call: borrowing Call<SignalReceived<JSONValue>>) throws {}
}

/// The commands for operators, as one types them.
@Suite(.serialized, .ownThread, .timeLimit(.minutes(2))) struct OperateCommandTests {
    private let folder: String
    private let store: HandlerStore
    private var path: String { folder + "/store.db" }

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "operate-\(UUID())").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        store = try HandlerStore(
            path: folder + "/store.db", registry: HandlerRegistry([Refused.self, Sent.self, Signaled.self]),
            synchronous: .normal)
    }

    private let opener = StoreOpener(
        reader: { StoreReader(path: $0, schemas: $1) }, store: { try HandlerStore(path: $0, registry: $1) })

    /// Runs a command, and returns what it said.
    @discardableResult
    private func run(_ command: String, _ words: String..., status: Int32 = 0) throws -> [String] {
        var said: [String] = []
        let words = words + ["--store", path]
        let say = { (line: VisibleText) in said.append(line.description) }
        let end: Int32 =
            switch command {
            case "handler": try HandlerCommand(words, opener, say: say).run()
            case "lane": try LaneCommand(words, opener, say: say).run()
            case "timer": try TimerCommand(words, opener, say: say).run()
            case "workflow": try WorkflowCommand(words, opener, say: say).run()
            case "node": try NodeCommand(words, opener, say: say).run()
            case "stats": try StatsCommand(words, opener, say: say).run()
            default: try CheckCommand(words, opener, say: say).run()
            }
        #expect(end == status, "\(said)")
        return said.flatMap { $0.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) }
    }

    private func json(_ line: String?) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data((line ?? "").utf8)) as? [String: Any])
    }

    private func quarantine(_ order: JSONValue = .null) throws -> AnyHandlerID {
        try store.step { step in
            let id = try step.bind(Refused(order: order).durable)
            try step.end(id, .result, with: TimerFired(dueAt: Timestamp(milliseconds: 7)))
            return AnyHandlerID(id)
        }
    }

    // MARK: Handlers

    @Test("H33 handler list has the same rows as text, JSON, JSON lines and CSV, in parts, without secrets")
    func list() throws {
        let ids = try (1...3).map { try quarantine(.integer($0)) }
        let text = try run("handler", "list")
        #expect(text.count == 4)
        #expect(text[1].contains("mail.refused@1") && text[1].contains("the server is away"), "\(text)")
        #expect(!text.joined().contains("hush"))
        let whole = try json(try run("handler", "list", "-o", "json").first)
        let rows = try #require(whole["rows"] as? [[String: Any]])
        #expect(whole["format"] as? Int == 1)
        #expect(rows.map { $0["row"] as? String } == ids.map { "\($0)" })
        #expect((rows[0]["arguments"] as? [String: Any])?["order"] as? Int == 1)
        #expect(rows[0]["state"] as? String == "quarantined")
        #expect(whole["next"] == nil)
        let lines = try run("handler", "list", "-o", "jsonl")
        #expect(try lines.map { try json($0)["row"] as? String } == ids.map { "\($0)" })
        let csv = try run("handler", "list", "-o", "csv")
        #expect(csv.count == 4)
        #expect(csv[0].hasPrefix("row,chain,handler,version,state,"))
        #expect(csv[1].hasPrefix("\(ids[0]),\(ids[0]),mail.refused,1,quarantined,"))
        let first = try json(try run("handler", "list", "-o", "json", "--limit", "2").first)
        #expect(first["next"] as? String == "\(ids[1])")
        let rest = try run("handler", "list", "-o", "jsonl", "--after", "\(ids[1])")
        #expect(try rest.map { try json($0)["row"] as? String } == ["\(ids[2])"])
        #expect(try run("handler", "list", "--name", "shop.*") == ["no handler"])
        #expect(try run("handler", "list", "--argument", "order=2", "-o", "jsonl").count == 1)
    }

    @Test("H33 CSV has no cell that a spreadsheet takes for a formula, and quotes what must be")
    func formula() throws {
        _ = try quarantine(.string("=1+1"))
        try store.step { try $0.pauseLane("=cmd,\"x\"", by: RepairAuthor("ada")) }
        let line = try run("lane", "list", "-o", "csv")[1]
        #expect(line.hasPrefix("\"'=cmd,\"\"x\"\"\",,,,true,0,0,0,"), "\(line)")
    }

    @Test("H33 who changed a handler, when and why, is shown with its failures after its end, too")
    func who() throws {
        let id = try quarantine()
        try run("handler", "discard", "\(id)", "--by", "ada", "--because", "a test order")
        let shown = try run("handler", "show", "\(id)").joined(separator: "\n")
        #expect(
            shown.contains("ada") && shown.contains("discard") && shown.contains("a test order"), "\(shown)")
        #expect(shown.contains("the server is away"), "\(shown)")
        let whole = try json(try run("handler", "show", "\(id)", "-o", "json").first)
        #expect((whole["repairs"] as? [[String: Any]])?.first?["by"] as? String == "ada")
        #expect((whole["failures"] as? [[String: Any]])?.count == 1)
        #expect((whole["ending"] as? [String: Any])?["reason"] as? String == "discarded")
        #expect(throws: CommandFailure.self) { try run("handler", "show", "777") }
    }

    @Test("H33 rows are all changed, or none, and a dry run changes nothing")
    func rows() throws {
        let ids = try (1...2).map { try quarantine(.integer($0)) }
        #expect(throws: CommandFailure.self) { try run("handler", "requeue", "\(ids[0])", "777") }
        let waiting = try store.step { try $0.bind(Sent().durable) }
        #expect(throws: CommandFailure.self) { try run("handler", "requeue", "\(ids[0])", "\(waiting)") }
        try run("handler", "requeue", "\(ids[0])", "--dry-run")
        #expect(try store.read { try $0.handlers(in: .quarantined) }.count == 2)
        #expect(try store.read { try $0.repairs() }.isEmpty)
        try run("handler", "requeue", "\(ids[0])", "\(ids[1])")
        #expect(try store.read { try $0.handlers(in: .quarantined) }.isEmpty)
        #expect(try store.read { try $0.repairs() }.map(\.author.way) == [.command, .command])
    }

    @Test("H33 all handlers of a name are requeued by a filter, after a script said that it means it")
    func bulk() throws {
        for order in 1...12 { _ = try quarantine(.integer(Int64(order))) }
        #expect(throws: UsageError.self) { try run("handler", "requeue") }
        #expect(throws: UsageError.self) { try run("handler", "requeue", "--name", "mail.*", "--all") }
        let dry = try run("handler", "requeue", "--name", "mail.*", "--dry-run")
        #expect(dry.first == "12 handlers would be changed: requeue")
        // The names of the columns, and the first five.
        #expect(dry.count == 7, "\(dry)")
        #expect(try store.read { try $0.handlers(in: .quarantined) }.count == 12)
        let done = try run("handler", "requeue", "--name", "mail.*", "--yes", "--because", "it is back")
        #expect(done == ["12 changed (requeue), 0 not"])
        #expect(try store.read { try $0.handlers(in: .quarantined) }.isEmpty)
        #expect(
            try store.read { try $0.repairs() }.map(\.author.reason)
                == Array(repeating: "it is back", count: 12))
        #expect(try run("handler", "requeue", "--all", "--yes") == ["no handler is to be changed"])
    }

    @Test("H33 a signal waits for its handler where nobody has the key")
    func signal() throws {
        let said = try run("handler", "signal", "payment-17", "{\"cents\":7}")
        #expect(said == ["no handler with the key waits for a signal; the signal waits for a week"])
        #expect(try store.read { try $0.first("SELECT count(*) FROM early_signal") { $0.integer(0) } } == 1)
        #expect(
            try store.read { try $0.repairs() }.map { "\($0.action) \($0.name)" } == ["signal payment-17"])
    }

    // MARK: Lanes and timers

    @Test("H33 a lane is paused, limited and resumed by command")
    func lane() throws {
        #expect(try run("lane", "list") == ["no lane has limits or handlers"])
        try run("lane", "limit", "mail", "--concurrency", "4", "--rate", "100/60s")
        try run("lane", "pause", "mail", "--because", "the server moves")
        let lane = try json(try run("lane", "list", "-o", "jsonl").first)
        #expect(lane["concurrency"] as? Int == 4)
        #expect(lane["rateCount"] as? Int == 100)
        #expect(lane["rateMilliseconds"] as? Int == 60_000)
        #expect(lane["isPaused"] as? Bool == true)
        try run("lane", "resume", "mail", "--dry-run")
        #expect(try store.read { try $0.laneStatus("mail") }.isPaused)
        try run("lane", "resume", "mail")
        #expect(try !store.read { try $0.laneStatus("mail") }.isPaused)
        #expect(
            try store.read { try $0.repairs() }.map(\.action) == ["resume-lane", "pause-lane", "limit-lane"])
    }

    @Test("H33 H28 timers are shown with their calendar and next times, paused and called now")
    func timer() throws {
        let (calendar, period) = try store.step { step in
            (
                try step.schedule(Sent().durable, on: .daily(at: 9, in: "UTC"), key: "report"),
                try step.schedule(Sent().durable, after: .seconds(60), every: .seconds(300))
            )
        }
        let lines = try run("timer", "list", "-o", "jsonl").map { try json($0) }
        #expect(lines.map { $0["rule"] as? String } == ["by '0 9 * * *' in UTC", "every 5 min"])
        #expect((lines[0]["next"] as? [String])?.count == 10)
        #expect((lines[0]["next"] as? [String])?.allSatisfy { $0.hasSuffix("T09:00:00.000Z") } == true)
        for id in [calendar, period] {
            try run("timer", "pause", "\(id)")
            #expect(try store.read { try $0.status(of: id)?.dueAt } == nil)
        }
        #expect(try run("timer", "list").dropFirst().allSatisfy { $0.contains("paused") })
        try run("timer", "resume", "\(period)")
        #expect(try store.read { try $0.status(of: period)?.dueAt } != nil)
        try run("timer", "run-now", "\(calendar)")
        #expect(try store.read { try $0.status(of: calendar)?.dueAt } != nil)
        #expect(throws: CommandFailure.self) { try run("timer", "pause", "777") }
    }

    // MARK: Answers

    @Test("H33 stats say what happened by name, and workflow, node and check answer")
    func answers() throws {
        _ = try quarantine()
        #expect(
            try run("node", "list", "-o", "jsonl").map { try json($0)["state"] as? String } == ["running"])
        let bad = try run("check", status: 2)
        #expect(
            bad.first?.hasPrefix("CRITICAL - 1 quarantined | quarantined=1;;0 parked=0;;0 ") == true, "\(bad)"
        )
        #expect(try run("check", "--quarantined", "1").first?.hasPrefix("OK - ") == true)
        #expect(
            try run("check", "--quarantined", "1", "--nodes", "2", status: 2).first?.contains(
                "1 processes instead of 2") == true)
        try Data("no store".utf8).write(to: URL(filePath: folder + "/other.db"))
        let unknown = try CheckCommand(["--store", folder + "/other.db"], opener, say: { _ in }).run()
        #expect(unknown == 3)
        let id = try quarantine()
        #expect(try run("workflow", "show", "\(id)") == ["the handler \(id) (mail.refused) has no journal"])
    }

    @Test("H28 stats count what a program did that has ended since")
    func stats() throws {
        let path = folder + "/worker.db"
        do {
            let worker = try HandlerStore(
                path: path, registry: HandlerRegistry([Sent.self]), synchronous: .normal)
            try worker.step { step in
                for _ in 1...3 {
                    try step.end(
                        step.bind(Sent().durable), .result,
                        with: TimerFired(dueAt: Timestamp(milliseconds: 7)))
                }
            }
        }
        var said: [String] = []
        _ = try StatsCommand(["--store", path, "-o", "jsonl"], opener, say: { said.append($0.description) })
            .run()
        let row = try json(said.first)
        #expect(row["handler"] as? String == "mail.sent")
        #expect(row["bound"] as? Int == 3)
        #expect(row["ended"] as? Int == 3)
        #expect(row["failed"] as? Int == 0)
    }
}
