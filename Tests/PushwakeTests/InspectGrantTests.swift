import Foundation
import Handlers
import TestServers
import TestSupport
import TestThreads
import Testing
import XMPPAccount

@testable import HandlersPostgres
@testable import PushwakeCommands

/// What `pushwake inspect` may and can see of the server of a store.
@Suite(.ownThread, .timeLimit(.minutes(5)))
struct InspectGrantTests {
    /// Lends a store of a role that owns its schema, with tables of all modules that inspect knows.
    private func withStore(
        clock: ServerClock = ServerClock(),
        _ body: (_ store: HandlerStore, _ database: TestDatabase, _ settings: (String) -> String) throws ->
            Void
    ) throws {
        let database = try PostgresServer.shared.makeDatabase()
        let name = database.name
        try database.query("CREATE ROLE \(name) LOGIN")
        defer {
            for role in ["\(name)_inspect", name] {
                _ = try? database.query("DROP OWNED BY \(role) CASCADE; DROP ROLE \(role)")
            }
        }
        try database.query(try GrantedRights.statements("program", for: name))
        func settings(_ role: String) -> String { database.connection() + " user=\(role)" }
        var options = try PostgresSettings(settings(name), durability: .onPrimary)
        options.clock = clock
        let store = try HandlerStore(
            options, registry: HandlerRegistry([InspectPostgresTests.Answered.self]),
            schemas: Account.schemas,
            role: .main, time: .system, log: nil)
        try body(store, database, settings)
    }

    private func fill(_ store: HandlerStore) throws {
        try store.step { step in
            _ = try step.schedule(
                InspectPostgresTests.Answered().durable, key: "order-17", after: .seconds(300))
            try step.execute("INSERT INTO account(jid) VALUES ('alice@localhost')")
            try step.execute("INSERT INTO ownership SELECT id, 7, 'main', ? FROM account", store.slotNumber)
            try step.execute("INSERT INTO session(account, connected_time) SELECT id, 0 FROM account")
        }
    }

    @Test(
        "G8 W8 a role with the rights of the page for inspect shows all of a store and a report, and reads no secret table"
    )
    func inspects() throws {
        try withStore { store, database, settings in
            try fill(store)
            try database.query(try GrantedRights.statements("inspect", for: database.name))
            let place = settings("\(database.name)_inspect")
            for words in [
                [], ["--json"], ["--key", "order-17"], ["--name", "a"], ["--state", "pending"],
                ["--argument", "customer=Ada"], ["--trace", "1"],
            ] {
                let shown = try ProgramEnding(of: "pushwake", ["inspect", "--store", place] + words)
                #expect(shown.status == 0 && shown.complaint == "", "\(words): \(shown)")
            }
            let report = try ProgramEnding(of: "pushwake", ["report", "--store", place])
            #expect(report.status == 0 && report.output.contains("order-17"), "\(report.complaint)")
            let secret = failure {
                try StoreReader(postgres: place).read { _ = try $0.all("SELECT * FROM fast_token") { _ in } }
            }
            #expect(secret?.code == .databaseReadOnly)
            // Whom the page grants more than that can see more than that.
            let all = try database.query(
                "SELECT string_agg(DISTINCT table_name, ' ' ORDER BY table_name) FROM information_schema.role_table_grants WHERE grantee = '\(database.name)_inspect'"
            ).split(separator: " ")
            #expect(all.count < 30 && !all.contains { $0.hasPrefix("omemo") })
        }
    }

    private func failure(_ body: () throws -> Void) -> HandlerError? {
        do {
            try body()
            return nil
        } catch { return error as? HandlerError }
    }

    @Test("G8 W8 inspect names the process that holds the lock of steps, and a node whose clock is wrong")
    func stepLock() throws {
        let clock = ServerClock(machine: { TimeSource.systemWall() + .seconds(120) })
        try withStore(clock: clock) { store, database, settings in
            let words = ["inspect", "--store", settings(database.name)]
            let quiet = try ProgramEnding(of: "pushwake", words)
            #expect(!quiet.output.contains("the lock of steps is held"), "\(quiet)")
            #expect(
                quiet.output.contains(
                    try Regex(
                        "the clock of node \(store.slotNumber) is (2 min|1 min 59 s) ahead of the server's")),
                "\(quiet)")
            try store.step { step in
                let process = try step.first("SELECT pg_backend_pid()") { $0.integer(0) } ?? 0
                let shown = try ProgramEnding(of: "pushwake", words)
                let line =
                    "the lock of steps is held by process \(process) of the server (durable-handlers node \(store.slotNumber) in "
                #expect(shown.output.contains(line) && shown.output.contains("0 waiting"), "\(shown)")
                let json = try ProgramEnding(of: "pushwake", words + ["--json"])
                #expect(json.output.contains("\"step_lock\":{") && json.output.contains("\"pid\":\(process)"))
                #expect(json.output.contains("\"clock_ahead\":1"))
            }
        }
    }
}
