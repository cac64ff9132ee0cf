import FoundationEssentials
import Glibc
import Handlers
import Platform
package import XMPPCore

/// `pushwake metrics`: shows the metrics of a store as Prometheus reads them, writes them to a file, or answers requests for them.
package struct MetricsCommand {
    package let options: OperateOptions
    private let address: (host: String, port: UInt16)?
    private let file: String?

    package init(
        _ words: [String], _ opener: StoreOpener,
        say: @escaping (VisibleText) -> Void = { Terminal.say($0) }
    ) throws {
        options = try OperateOptions(words, of: "metrics", opener, wordCount: 0, say: say)
        file = options.arguments.value("--file")
        address = try options.arguments.value("--listen").map { text in
            let parts = text.split(separator: ":", omittingEmptySubsequences: false)
            guard let port = parts.last.flatMap({ UInt16($0) }), parts.count <= 2 else {
                throw UsageError("--listen takes PORT or ADDRESS:PORT, such as 127.0.0.1:9464, not '\(text)'")
            }
            return (parts.count == 2 ? String(parts[0]) : "127.0.0.1", port)
        }
        guard file == nil || address == nil else { throw UsageError("say --file or --listen, not both") }
    }

    package func run() throws -> Int32 {
        if let address { return try MetricsServer(address.host, address.port) { try self.text() }.run() }
        let text = try self.text()
        if let file {
            // A reader of the folder sees the old file or the new one.
            let temporary = "\(file).\(getpid()).tmp"
            try Data(text.utf8).write(to: URL(filePath: temporary))
            guard rename(temporary, file) == 0 else {
                unlink(temporary)
                throw CommandFailure("\(file) cannot be replaced: \(String(cString: strerror(errno)))")
            }
        } else {
            options.say(VisibleText(lines: String(text.dropLast())))
        }
        return 0
    }

    /// The metrics of the store at this moment.
    package func text() throws -> String {
        let reader = try options.reader()
        let engine = options.store.isPostgres ? "postgresql" : "sqlite"
        return try reader.read { snapshot in
            var more = MetricsText()
            more.add(
                "durable_handlers_build_info", .gauge, "Always 1.",
                [(["engine": engine, "version": Pushwake.version], 1)])
            let processes = try StoreContents.processes(reader, snapshot)
            let states = engine == "sqlite" ? ["running", "stopped"] : ["alive", "late", "dead"]
            more.add(
                "durable_handlers_nodes", .gauge, "Processes or nodes that have the store open.",
                states.map { state in
                    (["state": state], Double(processes.count { $0.state == state }))
                })
            var files: [(labels: [String: String], value: Double)] = []
            if engine == "sqlite" {
                for (name, suffix) in [("database", ""), ("wal", "-wal")] {
                    let size = (try? FileStatus(options.store.text + suffix).size) ?? 0
                    files.append((["file": name], Double(size)))
                }
            }
            more.add("durable_handlers_store_bytes", .gauge, "Size of the files of the store.", files)
            try Self.addAccounts(to: &more, snapshot)
            return try snapshot.metrics() + more.text
        }
    }

    private static func addAccounts(
        to text: inout MetricsText, _ snapshot: borrowing Snapshot
    ) throws(HandlerError) {
        guard try snapshot.hasTable("outbox"), try snapshot.hasTable("request") else { return }
        let now = snapshot.now
        let outbox =
            try snapshot.first(
                "SELECT count(*) FROM outbox", read: { Double($0.quantity(0)) }) ?? 0
        let oldest = try snapshot.first(
            "SELECT created_at FROM outbox ORDER BY seq LIMIT 1",
            read: { (now - $0.timestamp(0)) / .seconds(1) })
        let requests =
            try snapshot.first(
                "SELECT count(*) FROM request", read: { Double($0.quantity(0)) }) ?? 0
        text.add(
            "durable_xmpp_outbox_stanzas", .gauge, "Stanzas that the server has not acknowledged.",
            [([:], outbox)])
        text.add(
            "durable_xmpp_outbox_oldest_age_seconds", .gauge, "Age of the oldest of them; 0 without any.",
            [([:], max(0, oldest ?? 0))])
        text.add(
            "durable_xmpp_requests_waiting", .gauge, "Requests without an answer.", [([:], requests)])
    }
}
