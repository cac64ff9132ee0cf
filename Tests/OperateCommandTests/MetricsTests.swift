import Foundation
import Handlers
import PushwakeCommands
import Synchronization
import TestThreads
import Testing
import XMPPAccount
import XMPPCore

private struct Sent: Handler {
    static let id = "mail.\"sent\"\\"
    func run(_ call: borrowing Call<TimerFired>) throws {}
}

private struct Refused: Handler {
    static let id = "mail.refused"
    static let retry = RetryPolicy.never
    func run(_ call: borrowing Call<TimerFired>) throws { throw CocoaError(.fileNoSuchFile) }
}

/// Runs a program with some input, and returns its status and what it said.
private func run(_ words: [String], input: String = "") throws -> (status: Int32, output: String) {
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = words
    let (stdin, stdout) = (Pipe(), Pipe())
    (process.standardInput, process.standardOutput, process.standardError) = (stdin, stdout, stdout)
    try process.run()
    stdin.fileHandleForWriting.write(Data(input.utf8))
    try stdin.fileHandleForWriting.close()
    let output = try stdout.fileHandleForReading.readToEnd() ?? Data()
    process.waitUntilExit()
    return (process.terminationStatus, String(decoding: output, as: UTF8.self))
}

/// The metrics of a store, and the alerts that are shipped for them.
@Suite(.serialized, .ownThread, .timeLimit(.minutes(2))) struct MetricsTests {
    private let folder: String
    private var path: String { folder + "/store.db" }
    private let opener = StoreOpener(
        reader: { StoreReader(path: $0, schemas: $1) }, store: { try HandlerStore(path: $0, registry: $1) })

    private static let monitoring = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: "docs/monitoring").path

    /// A store with all that is measured, which no process has open.
    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "metrics-\(UUID())").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let store = try HandlerStore(
            path: folder + "/store.db", registry: HandlerRegistry([Sent.self, Refused.self]),
            schemas: Account.schemas, synchronous: .normal)
        try store.step { step in
            let fired = TimerFired(dueAt: Timestamp(milliseconds: 7))
            for _ in 1...3 { try step.end(step.bind(Sent().durable), .result, with: fired) }
            try step.end(step.bind(Refused().durable), .result, with: fired)
            try step.schedule(Sent().durable, on: .daily(at: 9, in: "UTC"))
            try step.schedule(Sent().durable, after: .zero)
            try step.setLane(LaneRule("mail", concurrency: 2))
            for _ in 1...3 { try step.enqueue(Sent().durable, with: fired, lane: LanePlace("mail")) }
            try step.pauseLane("mail", by: RepairAuthor("ada"))
        }
        let runner = try HandlerRunner(store)
        try runner.runDue()
        runner.close()
    }

    private func metrics() throws -> String {
        try MetricsCommand(["--store", path], opener).text()
    }

    @Test("H28 promtool finds nothing wrong with the metrics, whatever the names of handlers hold")
    func format() throws {
        let checked = try run(["promtool", "check", "metrics"], input: try metrics())
        #expect(checked.status == 0 && checked.output == "", "\(checked)")
    }

    @Test("H28 metrics say what all processes have counted that closed the store, and what waits now")
    func values() throws {
        let lines = try Set(metrics().split(separator: "\n").map(String.init))
        for line in [
            #"durable_handlers_bound_total{handler="mail.refused"} 1"#,
            #"durable_handlers_bound_total{handler="mail.\"sent\"\\"} 8"#,
            #"durable_handlers_ended_total{handler="mail.\"sent\"\\",outcome="result"} 4"#,
            #"durable_handlers_failures_total{handler="mail.refused",result="quarantined"} 1"#,
            #"durable_handlers_failures_total{handler="mail.refused",result="retried"} 0"#,
            #"durable_handlers{state="quarantined"} 1"#, #"durable_handlers{state="pending"} 4"#,
            #"durable_handlers_lane_waiting{lane="mail"} 3"#, #"durable_handlers_lane_paused{lane="mail"} 1"#,
            #"durable_handlers_lane_places{lane="mail"} 2"#, #"durable_handlers_nodes{state="running"} 0"#,
            "durable_xmpp_outbox_stanzas 0",
        ] { #expect(lines.contains(line), "\(line) is not among \(lines.sorted())") }
    }

    @Test("H28 each alert that is shipped comes when it is to come and not before, by promtool's own tests")
    func rules() throws {
        for words in [["check", "rules", "rules.yml"], ["test", "rules", "rules.test.yml"]] {
            let checked = try run(["promtool"] + words.dropLast() + [Self.monitoring + "/" + words[2]])
            #expect(checked.status == 0 && checked.output.contains("SUCCESS"), "\(checked)")
        }
    }

    @Test("H28 each metric of an alert is one that the store has")
    func named() throws {
        let rules = try String(contentsOfFile: Self.monitoring + "/rules.yml", encoding: .utf8)
        let text = try metrics()
        let names = Set(rules.matches(of: #/durable_(?:handlers|xmpp)[a-z_]*/#).map { String($0.output) })
        #expect(names.count >= 9)
        for name in names {
            #expect(
                text.contains("\n\(name)") || text.hasPrefix(name) || text.contains(" \(name) "), "\(name)")
        }
        // And each alert has a test.
        let tests = try String(contentsOfFile: Self.monitoring + "/rules.test.yml", encoding: .utf8)
        for alert in rules.matches(of: #/alert: (\w+)/#) {
            #expect(tests.matches(of: try Regex("alertname: \(alert.1)")).count >= 2, "\(alert.1)")
        }
    }

    @Test("H28 metrics are answered by HTTP at /metrics alone, and the file is replaced as a whole")
    func ways() throws {
        let file = folder + "/durable.prom"
        try "old".write(toFile: file, atomically: true, encoding: .utf8)
        #expect(try MetricsCommand(["--store", path, "--file", file], opener).run() == 0)
        let text = try String(contentsOfFile: file, encoding: .utf8)
        #expect(text.contains("durable_handlers_build_info"))
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasSuffix(".tmp") } == [])
        let server = try MetricsServer("127.0.0.1", 0) { text }
        for (request, answer) in [
            ("GET /metrics HTTP/1.1", "HTTP/1.1 200 OK"), ("GET / HTTP/1.1", "HTTP/1.1 404 Not Found"),
            ("POST /metrics HTTP/1.1", "HTTP/1.1 405 Method Not Allowed"),
        ] {
            let script =
                "exec 3<>/dev/tcp/127.0.0.1/\(server.port); printf '%s\\r\\nHost: x\\r\\n\\r\\n' '\(request)' >&3; cat <&3"
            let client = Process()
            client.executableURL = URL(filePath: "/bin/bash")
            client.arguments = ["-c", script]
            let pipe = Pipe()
            client.standardOutput = pipe
            try client.run()
            server.answerNext()
            let said = String(decoding: try pipe.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            client.waitUntilExit()
            #expect(said.hasPrefix(answer), "\(said)")
            if answer.hasSuffix("OK") { #expect(said.hasSuffix("\r\n\r\n" + text), "\(said)") }
        }
        #expect(throws: UsageError.self) {
            try MetricsCommand(["--store", path, "--listen", "here"], opener)
        }
    }
}
