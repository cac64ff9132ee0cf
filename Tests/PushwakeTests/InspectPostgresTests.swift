import Foundation
import Handlers
import HandlersPostgres
import TestServers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPModules

@testable import PushwakeCommands

/// `pushwake inspect` and `pushwake report` on a store on PostgreSQL.
@Suite(.ownThread, .timeLimit(.minutes(5)))
struct InspectPostgresTests {
    struct Answered: Handler {
        static let id = "inspect-postgres-test.answered"
        var customer = "Ada"
        var token = Secret("hush")
        func run(_ call: borrowing Call<TimerFired>) throws {}
    }

    /// Fails for good.
    struct Failing: Handler {
        static let id = "inspect-postgres-test.failing"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<TimerFired>) throws { throw Broken() }
    }

    struct Broken: Error, CustomStringConvertible { let description = "the printer is on fire" }

    private let database: TestDatabase
    private let store: HandlerStore

    init() throws {
        database = try PostgresServer.shared.makeDatabase()
        store = try HandlerStore(
            postgres: database.connection(), registry: HandlerRegistry([Answered.self, Failing.self]),
            schemas: Account.schemas, durability: .onPrimary)
    }

    private func inspect(_ words: String..., over route: PostgresServer.Route = .socket) throws
        -> ProgramEnding
    {
        try ProgramEnding(of: "pushwake", ["inspect", "--store", database.connection(over: route)] + words)
    }

    private func contents() throws -> StoreContents {
        let ending = try inspect("--json")
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(StoreContents.self, from: Data(ending.output.utf8))
    }

    private func unfinished() throws -> HandlerID<TimerFired> {
        let id = try store.step { try $0.bind(Failing().durable) }
        _ = try store.step { try $0.end(id, .result, with: TimerFired(dueAt: Timestamp(milliseconds: 7))) }
        return id
    }

    private func state(_ id: HandlerID<TimerFired>) throws -> HandlerStatus.State? {
        try store.read { try $0.status(of: id)?.state }
    }

    /// A store as an account leaves it in the middle of its work.
    private func fill() throws {
        try store.step { step in
            let fired = TimerFired(dueAt: Timestamp(milliseconds: 1))
            let waiting = try step.bind(
                Answered().durable, key: "order-17", deadline: step.now + .seconds(900))
            _ = try step.schedule(Answered().durable, after: .seconds(300))
            _ = try step.schedule(Answered().durable, after: .seconds(60), every: .seconds(60))
            _ = try step.bind(Answered().durable, timeout: .seconds(30))
            try step.end(try step.bind(Answered().durable), .error, with: fired)
            try step.setLane(LaneRule("mail", concurrency: 1))
            _ = try step.enqueue(Answered().durable, with: fired, lane: LanePlace("mail"))
            try step.execute("INSERT INTO account(jid) VALUES ('alice@localhost')")
            try step.execute(
                "INSERT INTO ownership SELECT id, 7, 'main', ? FROM account", store.slotNumber)
            try step.execute(
                """
                INSERT INTO session(account, number, open_number, resumption_id, max, alive_at, full_jid, received, acknowledged,
                    connected_time, bound_count, resumed_count)
                SELECT id, 3, 3, 'hush-resumption', 600, ?, 'alice@localhost/r', 11, 22, 1000, 3, 4 FROM account
                """, step.now)
            try step.execute(
                "INSERT INTO request SELECT id, 'q1', 'bob@localhost/peer', 3, ?, 61000, 0, NULL, NULL FROM account",
                waiting)
            try step.execute(
                "INSERT INTO outbox(account, session, kind, stanza_id, xml, created_at) SELECT id, NULL, 0, 'm1', ?, ? FROM account",
                [UInt8]("<message><body>hush-body</body></message>".utf8), step.now - .seconds(5))
        }
    }

    // MARK: What is shown

    @Test("G8 W8 inspect shows of a store on PostgreSQL what it shows of a file, without secrets")
    func sections() throws {
        try fill()
        let shown = try inspect()
        #expect(shown.status == 0 && shown.complaint == "", "\(shown)")
        for line in [
            "store\n  postgresql://", "open in: 1", "account alice@localhost",
            "main, node \(store.slotNumber), alive (epoch 7)", "requests: 1", "timers: 5", "lanes: 1",
            "outbox: 1", "pending: 4", "handlers: 5", "endings: 1",
            "waits for the answer of bob@localhost/peer to the request 'q1'",
        ] { #expect(shown.output.contains(line), "\(line): \(shown)") }
        #expect(!shown.output.contains("hush"), "\(shown)")
        let found = try inspect("--key", "order-17", "--argument", "customer=Ada")
        #expect(found.output.contains("order-17") && found.output.contains("handlers: 1"), "\(found)")
    }

    @Test("G8 inspect shows the nodes of a store on PostgreSQL, and which of them was killed")
    func nodes() throws {
        let program = try ChildProcess(
            BuiltProduct.path("NodeTestProgram"),
            [database.connection(over: .tcp) + " application_name=second", "wait"], input: .pipe,
            output: .pipe)
        _ = try program.output?.readLine(deadline: .now + .seconds(40)) { $0 == "begun" }
        let node = try #require(try contents().processes.map(\.slot).max())
        try store.step { step in
            try step.execute("INSERT INTO account(jid) VALUES ('alice@localhost')")
            try step.execute("INSERT INTO ownership SELECT id, 7, 'main', ? FROM account", node)
            try step.execute(
                "INSERT INTO session(account, connected_time) SELECT id, 0 FROM account")
        }
        let before = try contents()
        #expect(before.processes.map(\.slot) == [store.slotNumber, node])
        #expect(before.processes.map(\.state) == ["alive", "alive"])
        #expect(before.processes.map(\.application) == ["durable-handlers", "second"])
        #expect(before.processes.map(\.address) == [nil, "127.0.0.1"])
        #expect(before.processes.allSatisfy { $0.pid == nil })
        #expect(before.running.shown.map(\.why) == ["is run by node \(node)"])
        #expect(before.accounts.map(\.ownership.slot) == [node])
        #expect(before.accounts.map(\.ownership.state) == ["alive"])

        program.killAndWait()
        let isDead = try becomesTrue(before: .now + .seconds(40)) {
            try contents().processes.map(\.state) == ["alive", "dead"]
        }
        #expect(isDead)
        let after = try contents()
        #expect(
            after.running.shown.map(\.why)
                == ["was run by a process that is gone; waits for another process, which frees it"])
        #expect(after.accounts.map(\.ownership.state) == ["dead"])
        let text = try inspect().output
        #expect(text.contains(try Regex("node +state +application")), "\(text)")
        #expect(text.contains("main, node \(node), dead (epoch 7)"), "\(text)")
        // Looking has freed nothing.
        #expect(try database.query("SELECT count(*) FROM node") == "2")
    }

    @Test(
        "G8 inspect shows that a node is frozen or was killed, while there is no other one that notices that")
    func late() throws {
        let alone = try PostgresServer.shared.makeDatabase()
        let program = try FrozenProcess(
            BuiltProduct.path("NodeTestProgram"), [alone.connection(), "wait"], saying: "begun")
        let reader = try StoreReader(postgres: alone.connection())
        func look() throws -> (state: String?, why: String?) {
            let contents = try StoreContents(reader, limit: 1)
            return (contents.processes.first?.state, contents.running.shown.first?.why)
        }
        #expect(try becomesTrue(before: .now + .seconds(40)) { try look().state == "late" })
        #expect(try look().why?.hasPrefix("is run by node") == true)
        program.kill()
        #expect(try becomesTrue(before: .now + .seconds(40)) { try look().state == "dead" })
        #expect(try look().why?.hasPrefix("was run by a process that is gone") == true)
    }

    @Test("G8 W9 report draws a store on PostgreSQL")
    func report() throws {
        try fill()
        let folder = try TemporaryFolder()
        let file = folder.path + "/page.html"
        let words = ["report", "--store", database.connection(over: .tcp)]
        let ending = try ProgramEnding(of: "pushwake", words + ["--output", file])
        #expect(ending.status == 0 && ending.complaint.contains("open it in a browser"), "\(ending)")
        let page = try folder.text(of: "page.html")
        for text in ["order-17", Answered.id, "Not ended: 5", "postgresql://127.0.0.1"] {
            #expect(page.contains(text), "\(text)")
        }
        #expect(!page.contains("hush") && !page.contains(PostgresServer.password))
    }

    @Test("G8 inspect and report read a standby, and a repair there is refused")
    func standby() throws {
        let (server, standby) = try PostgresServer.startWithStandby()
        defer {
            standby.close()
            server.close()
        }
        let copied = try server.makeDatabase()
        let store = try HandlerStore(
            postgres: copied.connection(), registry: HandlerRegistry([Failing.self]))
        let id = try store.step { try $0.bind(Failing().durable) }
        let place = standby.connection(to: copied.name)
        let reader = try StoreReader(postgres: place)
        let isThere = becomesTrue(before: .now + .seconds(40)) {
            (try? reader.read { try $0.status(of: id) }) ?? nil != nil
        }
        try #require(isThere)
        let shown = try ProgramEnding(of: "pushwake", ["inspect", "--store", place])
        #expect(shown.status == 0 && shown.output.contains("handlers: 1"), "\(shown)")
        #expect(shown.output.contains("open in: 1"), "\(shown)")
        let page = try ProgramEnding(of: "pushwake", ["report", "--store", place])
        #expect(page.status == 0 && page.output.contains(Failing.id), "\(page.complaint)")
        let repair = try ProgramEnding(of: "pushwake", ["handler", "discard", "\(id)", "--store", place])
        #expect(
            repair.status == 1 && repair.complaint.contains("is a standby, which only reads"), "\(repair)")
        #expect(try store.read { try $0.status(of: id)?.state } == .pending)
    }

    // MARK: Repairs

    private func handler(_ words: String..., over route: PostgresServer.Route = .socket) throws
        -> ProgramEnding
    {
        try ProgramEnding(of: "pushwake", ["handler", "--store", database.connection(over: route)] + words)
    }

    @Test(
        "G8 W8 H33 handlers in a store on PostgreSQL are requeued, invalidated and discarded, all or nothing")
    func repairs() throws {
        let (requeued, invalidated, discarded) = (try unfinished(), try unfinished(), try unfinished())
        try store.step { step in
            try step.execute("INSERT INTO account(jid) VALUES ('alice@localhost')")
            try step.execute(
                "INSERT INTO outbox(account, session, kind, stanza_id, xml, created_at, handler) SELECT id, NULL, 0, 'm1', ?, 0, ? FROM account",
                [UInt8]("<message/>".utf8), discarded)
        }
        let wrong = try handler("requeue", "\(requeued)", "77777")
        #expect(wrong.status == 1, "\(wrong)")
        #expect(
            wrong.complaint == "pushwake: the handler 77777 has ended or never existed. Nothing was changed\n"
        )
        #expect(try state(requeued) == .quarantined, "half of it was done")

        for (verb, id, effect) in [
            ("requeue", requeued, "requeued, a runner of the program calls it"),
            ("invalidate", invalidated, "invalidated, what was bound for that case ran"),
            ("discard", discarded, "discarded, nothing ran for it"),
        ] {
            let done = try handler(verb, "\(id)", over: .tcp)
            #expect(done.status == 0 && done.output.contains(effect), "\(done)")
        }
        #expect(try state(requeued) == .pending)
        #expect(try store.read { try $0.ending(of: invalidated)?.outcome } == .invalidated)
        #expect(try store.read { try $0.ending(of: discarded)?.reason } == .discarded)
        #expect(try database.query("SELECT count(*) FROM outbox WHERE handler IS NULL") == "1")
        #expect(try database.query("SELECT count(*) FROM node") == "1", "the repair was no node for longer")
    }

    // MARK: Errors

    @Test("G8 what cannot be read is said with the status of a failure, and a password is never printed")
    func errors() throws {
        let tcp = database.connection(over: .tcp)
        let other = try PostgresServer.shared.makeDatabase()
        let cases = [
            ("cannot be reached", tcp + " port=1"),
            ("password authentication failed", tcp + " password='hush horse'"),
            ("does not exist", tcp + " dbname=nowhere"),
            ("holds no store", other.connection(over: .tcp)),
            ("cannot be read", "postgresql://postgres:hush%horse@127.0.0.1/bots"),
        ]
        for (words, settings) in cases {
            for command in ["inspect", "report"] {
                let ending = try ProgramEnding(of: "pushwake", [command, "--store", settings])
                #expect(ending.status == 1 && ending.output == "", "\(words): \(ending)")
                #expect(
                    ending.complaint.hasPrefix("pushwake: ") && ending.complaint.contains(words), "\(ending)")
                #expect(!ending.complaint.contains("horse"), "\(ending)")
            }
        }
        for options in [[], ["--json"], ["--key", "none"]] {
            let shown = try ProgramEnding(of: "pushwake", ["inspect", "--store", tcp] + options)
            #expect(shown.status == 0 && !"\(shown)".contains("horse"), "\(shown)")
        }
        let usage = try ProgramEnding(of: "pushwake", ["inspect", tcp])
        #expect(usage.status == 64 && usage.complaint.contains("name it with --store"), "\(usage)")
        #expect(!usage.complaint.contains("horse"), "\(usage)")
    }

    @Test("G8 without pushwake-postgres beside it, pushwake says how to build it")
    func missing() throws {
        let folder = try TemporaryFolder()
        let copy = folder.path + "/pushwake"
        try FileManager.default.copyItem(atPath: BuiltProduct.path("pushwake"), toPath: copy)
        for words in [["inspect", "--store", database.connection()], ["store", "move"]] {
            let process = try ChildProcess(copy, words, output: .pipe, errors: .pipe)
            let ending = try ProgramEnding(of: process)
            #expect(ending.status == 1, "\(ending)")
            #expect(ending.complaint.contains("--product pushwake-postgres' and put it beside"), "\(ending)")
        }
    }

    @Test("G3 pushwake does not link libpq; pushwake-postgres does")
    func linked() throws {
        func links(_ product: String) throws -> Bool {
            let process = try ChildProcess("ldd", [BuiltProduct.path(product)], output: .pipe)
            return try ProgramEnding(of: process).output.contains("libpq.so")
        }
        #expect(try links("pushwake-postgres") && !links("pushwake"))
    }
}

/// What `--store` takes for a database of PostgreSQL.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct StoreAddressTests {
    @Test(
        "G8 a connection string is no path, and no path is a connection string",
        arguments: [
            ("postgresql://pg1/bots", true), ("postgres://juliet:secret@pg1:5433/bots?sslmode=require", true),
            ("host=pg1,pg2 dbname=bots", true), ("dbname = bots", true),
            ("connect_timeout=3\tservice=bots", true),
            ("app.db", false), ("/var/lib/my host=x.db", false), ("./my host=x.db", false),
            ("./host=x.db", false),
            ("../postgresql://x", false), ("a=b.db", false), ("myhost=x.db", false), ("postgresql", false),
            ("", false),
        ])
    func isPostgres(text: String, expected: Bool) {
        #expect(StoreAddress(text).isPostgres == expected)
    }

    @Test("G8 a command that opens files refuses a connection string, and does not print it")
    func filesOnly() throws {
        for words in [
            ["send", "--jid", "a@b", "c@d", "text"], ["omemo"],
            ["worker", "--jid", "a@b", "--peer", "c@d/e"],
        ] {
            let all = words + ["--store", "host=pg1 password=hush"]
            let program = words == ["omemo"] ? "pushwake-omemo" : "pushwake"
            let ending = try ProgramEnding(
                of: program, program == "pushwake" ? all : Array(all.dropFirst()),
                environment: ["PUSHWAKE_PASSWORD": "x"])
            #expect(ending.status == 64 && ending.complaint.contains("names a file"), "\(ending)")
            #expect(!ending.complaint.contains("hush"), "\(ending)")
        }
    }
}
