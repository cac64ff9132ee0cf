@testable import Handlers
import Platform
import Synchronization
import TestServers
import TestSupport
import TestThreads
import Testing

@testable import HandlersPostgres

/// Stores that have one database open, some of which die.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct NodeTests {
    /// Waits for what others do meanwhile.
    private static func eventually(_ isTrue: () throws -> Bool) throws {
        try #require(try becomesTrue(before: .now + .seconds(40), isTrue))
    }

    /// A runner that calls what is due, for as long as the test lends it.
    private static func withRunner(of store: HandlerStore, _ body: () throws -> Void) throws {
        let runner = try HandlerRunner(store)
        try runner.start()
        defer { runner.close() }
        try body()
    }

    private static let lease = "SELECT coalesce(lease, 0) || ' ' || state || ' ' || deaths FROM handler"

    // MARK: The fence

    @Test("G5 a step of a store that others took for dead is not stored, and runs again as another node")
    func fenced() throws {
        try withStore { store, database in
            let old = store.slotNumber
            var numbers: [Int] = []
            try store.step { step in
                numbers.append(store.slotNumber)
                try step.write("INSERT INTO note(text) VALUES ('\(numbers.count)')")
                if numbers.count == 1 { try database.query("DELETE FROM node_lease") }
            }
            #expect(try store.texts() == ["2"])
            #expect(numbers == [old, store.slotNumber])
            #expect(store.slotNumber != old)
            try expectConnection(of: store.slotNumber, database)
        }
    }

    @Test("G8 a store that was moved while a node was taken for dead refuses all steps of that node")
    func movedMeanwhile() throws {
        try withStore { store, database in
            try database.query("UPDATE place SET move = 'm', moves_to = 'file.db'; DELETE FROM node_lease")
            for _ in 0..<40 {
                #expect(
                    code { try store.step { try $0.write("INSERT INTO note(text) VALUES ('late')") } }
                        == .databaseMoved)
            }
            #expect(try database.query("SELECT count(*) FROM note") == "0")
            // None is left that could commit, or gets a part of what is shared.
            #expect(try database.query("SELECT count(*) FROM node_lease") == "0")
            try database.query("UPDATE place SET moves_to = NULL")
            try store.step { try $0.write("INSERT INTO note(text) VALUES ('given back')") }
            #expect(try store.texts() == ["given back"])
        }
    }

    @Test("G5 a store that was taken for dead gets another place also in a step that writes nothing")
    func fencedIdle() throws {
        try withStore { store, database in
            let old = store.slotNumber
            try database.query("DELETE FROM node_lease")
            try Self.eventually { store.isFenced }
            try store.step { _ in }
            #expect(store.slotNumber != old && !store.isFenced)
        }
    }

    @Test("G5 nobody fences a node while its step commits, and what it has committed is known afterwards")
    func fencedMeanwhile() throws {
        try withStore { store, database in
            let old = store.slotNumber
            try store.step { try $0.write("INSERT INTO note(text) VALUES ('a')") }
            let step = "SELECT step FROM node_step WHERE node = \(old)"
            let before = Int(try database.query(step)) ?? 0
            try database.query(
                "CREATE FUNCTION fence() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$;"
                    + "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON note DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fence()"
            )
            let committing = try SystemThread("committing") {
                try? store.step { try $0.write("INSERT INTO note(text) VALUES ('b')") }
            }
            try Self.eventually {
                try database.query(
                    "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
                ) == "1"
            }
            // Waits for the commit.
            try database.query("DELETE FROM node_lease")
            #expect(try database.query(step) == "\(before + 1)")
            committing.join()
            #expect(try store.texts() == ["a", "b"])
        }
    }

    @Test(
        "G5 a store that others took for dead starts its connected time again, without a step of the program")
    func connectedTime() throws {
        try withStore { store, database in
            try Self.withRunner(of: store) {
                let old = store.slotNumber
                try database.query("DELETE FROM node_lease")
                try Self.eventually {
                    let slots = try database.query("SELECT slot FROM connected_slot WHERE slot > \(old)")
                    return store.slotNumber != old && slots == "\(store.slotNumber)"
                }
            }
        }
    }

    // MARK: Deaths

    @Test("G5 a node is recovered by one thread at a time")
    func recoversOnce() throws {
        let database = try PostgresServer.shared.makeDatabase()
        do { _ = try openStore(database) }
        let loop = try NodeLoop(PostgresSettings(database.connection(), durability: .onPrimary))
        try database.query("INSERT INTO node(id, is_sharing) VALUES (100, 0)")
        #expect(loop.startRecoveries().map(\.node) == [100])
        // As when it is found again meanwhile.
        loop.endRecovery(of: 101, isDone: false)
        #expect(loop.startRecoveries().isEmpty)
        loop.endRecovery(of: 100, isDone: false)
        #expect(loop.startRecoveries().map(\.node) == [100])
        // Nor by another one meanwhile, unless this one is dead, too.
        let other = try NodeTable(
            PostgresSettings(database.connection(), durability: .onPrimary), isReconnection: false)
        #expect(try !other.startRecovery(of: 100, by: loop.number + 1))
        try database.query("UPDATE node SET recoverer = \(loop.number + 7) WHERE id = 100")
        #expect(try other.startRecovery(of: 100, by: loop.number))
        loop.endRecovery(of: 100, isDone: true)
        #expect(try database.query("SELECT count(*) FROM node WHERE id = 100") == "0")
        loop.leave()
    }

    @Test("G5 what a killed process held is free at once for one that lives")
    func killed() throws {
        try withStore { store, database in
            let program = try NodeProgram(database, "wait")
            try program.expect("begun")
            #expect(try database.query("SELECT lease IS NULL FROM handler") == "f")
            program.kill()
            // It does not know the handler, and leaves it to others.
            try Self.withRunner(of: store) {
                try Self.eventually { try database.query(Self.lease).hasPrefix("0 ") }
            }
            #expect(try database.query("SELECT deaths FROM handler") == "1")
            #expect(try database.query("SELECT count(*) FROM node") == "1")
        }
    }

    @Test("G5 what a process held that was killed earlier is free when a store is opened")
    func killedBefore() throws {
        let database = try PostgresServer.shared.makeDatabase()
        _ = try openStore(database)
        let program = try NodeProgram(database, "wait")
        try program.expect("begun")
        program.kill()
        let store = try openStore(database)
        #expect(try database.query(Self.lease).hasPrefix("0 "))
        #expect(try database.query("SELECT count(*) FROM node") == "1")
        withExtendedLifetime(store) {}
    }

    @Test(
        "G5 what a frozen process held is free after 3 s; thawed, it ends its handler and goes on as another node"
    )
    func frozen() throws {
        try withStore { store, database in
            let program = try NodeProgram(database, "wait")
            try program.expect("begun")
            let number = try database.query("SELECT max(id) FROM node")
            program.freeze()
            try Self.withRunner(of: store) {
                try Self.eventually { try database.query(Self.lease).hasPrefix("0 ") }
            }
            #expect(try database.query("SELECT count(*) FROM node") == "1")
            program.thaw()
            try program.expect("canceled")
            try Self.eventually {
                try database.query("SELECT count(*) FROM node WHERE id > \(number)") == "1"
            }
        }
    }

    @Test("G5 a process that is frozen inside of a step holds up the others no longer than its lease")
    func frozenInStep() throws {
        try withStore { store, database in
            let program = try NodeProgram(database, "hold")
            try program.expect("inside")
            program.freeze()
            // Waits for the lock of steps, which the dead connection holds, for no more than 5 s.
            try store.step { try $0.write("INSERT INTO note(text) VALUES ('other')") }
            #expect(try store.texts() == ["other"])
            program.thaw()
            try program.write("go on")
            // On a busy machine it is taken for dead once more.
            #expect(try program.expect(prefix: "stored in run ") != "stored in run 1")
            #expect(try store.texts() == ["other", "held"])
        }
    }

    @Test("G5 a store that is cut off is taken for dead, and stores its step once when its line is back")
    func cutOff() throws {
        let server = try PostgresServer.shared
        let database = try server.makeDatabase()
        let proxy = try LoopbackProxy(to: server.port)
        var settings = try PostgresSettings(
            database.connection(over: .tcp) + " port=\(proxy.port)", durability: .onPrimary)
        settings.answerLimit = .seconds(1)
        let cutOff = try openStore(settings)
        let other = try openStore(database)
        let old = cutOff.slotNumber
        proxy.silence()
        let isLeft = "SELECT count(*) FROM node WHERE id = \(old)"
        try Self.withRunner(of: other) { try Self.eventually { try database.query(isLeft) == "0" } }
        let runs = Atomic<Int>(0)
        let stepping = try SystemThread("stepping") {
            try? cutOff.step { step in
                runs.add(1, ordering: .relaxed)
                try step.write("INSERT INTO note(text) VALUES ('a')")
            }
        }
        SystemThread.sleep(microseconds: 100_000)
        proxy.resume()
        stepping.join()
        #expect(try cutOff.texts() == ["a"])
        #expect(cutOff.slotNumber != old)
        try expectConnection(of: cutOff.slotNumber, database)
        withExtendedLifetime(database) {}
    }

    @Test(
        "G6 stores that lose their server and find it again take each other for dead neither at once nor later"
    )
    func restarted() throws {
        let server = try PostgresServer()
        try server.start()
        defer { server.close() }
        let database = try server.makeDatabase()
        let stores = try (0..<3).map { _ in try openStore(database) }
        let numbers = stores.map(\.slotNumber)
        server.kill()
        // Longer than a lease.
        SystemThread.sleep(microseconds: 3_500_000)
        try server.start()
        let leases =
            "SELECT count(*) FROM node_lease WHERE is_dead = 0 AND until > extract(epoch FROM clock_timestamp()) * 1000"
        try Self.eventually { try database.query(leases) == "3" }
        for store in stores { try store.step { try $0.write("INSERT INTO note(text) VALUES ('a')") } }
        SystemThread.sleep(microseconds: 3_500_000)
        for store in stores { try store.step { try $0.write("INSERT INTO note(text) VALUES ('b')") } }
        #expect(stores.map(\.slotNumber) == numbers)
        withExtendedLifetime(database) {}
    }

    @Test(
        "G5 a handler that kills its process is found at the second kill, and quarantined after as many as its policy says"
    )
    func deadly() throws {
        try withStore { store, database in
            var deaths: [String] = []
            for _ in 0..<4 {
                let ending = try NodeProgram(database, "deadly").ending
                deaths.append(try database.query("SELECT deaths || ' ' || state FROM handler"))
                if ending.succeeded { break }
                // A process that starts before the server has noticed the death cannot know of it.
                try Self.eventually {
                    try database.query("SELECT count(*) FROM node_lease WHERE is_dead = 0") == "1"
                }
            }
            // Of the first kill nobody knows what it was; the fourth process finds the handler quarantined.
            #expect(deaths == ["0 0", "0 0", "1 0", "2 2"])
        }
    }

    @Test("G5 after a death each handler of a step is stored while it runs, and none once the step has ended")
    func blamesNobody() throws {
        try withStore { first, database in
            try database.query(
                """
                CREATE TABLE told(id SERIAL, handler BIGINT);
                CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN INSERT INTO told(handler) VALUES (NEW.handler); RETURN NEW; END $$;
                CREATE TRIGGER tell AFTER UPDATE OF handler ON node FOR EACH ROW EXECUTE FUNCTION tell();
                INSERT INTO node_step(node, step, fence, ended_at) VALUES (0, 1, 0, \(NodeTable.clock))
                """)
            let store = try openStore(database)
            let ids = try store.step { step in try (1...3).map { _ in try step.bind(Note(text: "a").durable) }
            }
            try store.step { step in for id in ids { _ = try step.end(id, .result, with: 1) } }
            func told() throws -> String {
                try database.query(
                    "SELECT string_agg(coalesce(handler::text, 'nobody'), ' ' ORDER BY id) FROM told")
            }
            let all = (ids.map { "\($0)" } + ["nobody"]).joined(separator: " ")
            try Self.eventually { try told() == all }
            // Also a step that fails takes the blame from its handlers.
            let id = try store.step { try $0.bind(Note(text: "b").durable) }
            #expect(throws: Refusal.self) {
                try store.step { step in
                    _ = try step.end(id, .result, with: 1)
                    throw Refusal()
                }
            }
            try Self.eventually { try told() == "\(all) \(id) nobody" }
            withExtendedLifetime(first) {}
        }
    }

    @Test("G5 a look for what is due does not wait for the step of another machine when nothing is")
    func looksWithoutStep() throws {
        try withStore { store, database in
            let other = try openStore(database)
            let runner = try HandlerRunner(other)
            defer { runner.close() }
            // Once in a minute it also removes old rows.
            try runner.runDue()
            try store.step { step in
                try step.write("INSERT INTO note(text) VALUES ('a')")
                // It would fail with `databaseLocked`.
                #expect(try runner.runDue() == nil)
            }
        }
    }

    @Test("G5 a look for what is due is a step where the server takes no more connections")
    func looksInStep() throws {
        let database = try PostgresServer.shared.makeDatabase()
        let role = "limited_in_\(database.name)"
        // One connection is for the steps, one for the lease.
        try database.query(
            "CREATE ROLE \(role) LOGIN CONNECTION LIMIT 2; CREATE SCHEMA AUTHORIZATION \(role)")
        do {
            var settings = try PostgresSettings(
                database.connection() + " user=\(role)", durability: .onPrimary)
            // A read of the program would wait for a connection.
            settings.outageLimit = .zero
            let store = try openStore(settings)
            #expect(code { try store.read { _ in } } == .databaseUnavailable)
            let runner = try HandlerRunner(store)
            defer { runner.close() }
            try store.step { _ = try $0.schedule(Remark(text: "late").durable, after: .zero) }
            try runner.runDue()
            #expect(try database.query("SELECT text FROM \(role).note") == "late")
        }
        try database.query("DROP OWNED BY \(role) CASCADE; DROP ROLE \(role)")
    }

    @Test("G5 a timer of the program fires next on the machine that has fired it, and on others later")
    func repeats() throws {
        let database = try PostgresServer.shared.makeDatabase()
        let stores = try [openStore(database), openStore(database)]
        let runners = try stores.map { try HandlerRunner($0) }
        defer { for runner in runners { runner.close() } }
        try stores[0].step {
            _ = try $0.schedule(Remark(text: "again").durable, after: .zero, every: .seconds(3600))
        }
        try runners[1].runDue()
        #expect(try stores[0].texts() == ["again"])
        let next = Timestamp(
            milliseconds: try #require(Int64(database.query("SELECT due FROM handler"))))
        let looks = runners.map {
            $0.loop.ownTimes.withLock { $0.look(at: next, now: Timestamp(milliseconds: 0)) }
        }
        #expect(looks[1] == next && looks[0] == next + .milliseconds(200))
    }

    @Test("G4 rows of a scope are found by an index, however many there are of others")
    func findsScope() throws {
        try withStore { store, database in
            try database.query(
                """
                INSERT INTO handler(name, version, arguments, kind, bound_at, scope, lane, due, connected_due)
                SELECT 'note', 1, '', 0, 0, CASE WHEN n % 2 = 0 THEN 's' || n END, n % 4, n, n FROM generate_series(1, 20000) AS n
                """)
            try database.query("ANALYZE handler")
            let texts = [
                DueRows.selectNextDue, DueRows.selectNextDueOfProgram,
                DueRows.selectNextConnectedDue,
                DueRows.selectNextConnectedDueOfProgram,
            ]
            for text in texts {
                let sql = text.replacing("scope = ?1", with: "scope = 's8'")
                    .replacing("scope = ?", with: "scope = 's8'").replacing(/\?[0-9]?/, with: "1")
                let plan = try database.query("EXPLAIN \(sql)")
                #expect(
                    !plan.contains("Filter") && !plan.contains("Sort")
                        && !plan.contains("Seq Scan on handler"), "\(plan)")
            }
        }
    }

    @Test("G5 a store that is closed leaves no node behind")
    func leaves() throws {
        let database = try PostgresServer.shared.makeDatabase()
        do { _ = try openStore(database) }
        for table in ["node", "node_lease", "node_step"] {
            #expect(try database.query("SELECT count(*) FROM \(table)") == "0")
        }
    }
}

/// A process with a store of its own.
private final class NodeProgram {
    private let child: ChildProcess

    init(_ database: TestDatabase, _ command: String) throws {
        child = try ChildProcess(
            BuiltProduct.path("NodeTestProgram"), [database.connection(), command], input: .pipe,
            output: .pipe)
    }

    func expect(_ line: String) throws {
        _ = try child.output?.readLine(deadline: .now + .seconds(40)) { $0 == line }
    }

    func expect(prefix: String) throws -> String? {
        try child.output?.readLine(deadline: .now + .seconds(40)) { $0.hasPrefix(prefix) }
    }

    func write(_ line: String) throws { try child.write(line + "\n") }
    var ending: ChildEnding {
        get throws { try child.waitUntilExit(deadline: .now + .seconds(40)) }
    }

    func kill() { _ = child.killAndWait() }
    func freeze() { child.signal(Signal.stop) }
    func thaw() { child.signal(Signal.resume) }
}
