@testable import Handlers
import Platform
import Synchronization
import TestServers
import TestSupport
import TestThreads
import Testing

@testable import HandlersPostgres

/// Roles that have no business in a store, and may connect to its database.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct GuestTests {
    // MARK: The lock of steps

    @Test(
        "G4 a role that may only connect, or only read, holds up no step, whatever it locks",
        arguments: [
            "SELECT pg_catalog.pg_advisory_lock(pg_catalog.hashtextextended('durable-handlers ' || '%', 0))",
            "SELECT pg_catalog.pg_advisory_lock(n) FROM pg_catalog.generate_series(0, 9) AS n",
            "LOCK TABLE %.step_lock IN ACCESS SHARE MODE",
            "SELECT * FROM %.step_lock",
        ])
    func holds(lock: String) throws {
        let scene = try RoleScene()
        let store = try scene.open()
        try scene.database.query(
            "GRANT USAGE ON SCHEMA \(scene.owner) TO \(scene.guest); GRANT SELECT ON ALL TABLES IN SCHEMA \(scene.owner) TO \(scene.guest)"
        )
        let refused = try scene.connectGuest()
        try refused.executeOnce("BEGIN")
        let taking = "LOCK TABLE \(scene.owner).step_lock IN SHARE UPDATE EXCLUSIVE MODE"
        #expect(code { try refused.executeOnce(taking) } == .databaseReadOnly)
        let guest = try scene.connectGuest()
        try guest.executeOnce("BEGIN")
        try guest.executeOnce(lock.replacing("%", with: scene.owner))
        try store.step { try $0.write("INSERT INTO note(text) VALUES ('a')") }
        #expect(try store.texts() == ["a"])
        withExtendedLifetime(guest) {}
    }

    @Test("G4 two programs that open a store in an empty schema at the same time make it once")
    func opensTogether() throws {
        let scene = try RoleScene()
        for _ in 0..<5 {
            let stores = Mutex<[HandlerStore]>([])
            let threads = try (0..<4).map { _ in
                try SystemThread("opening") {
                    if let store = try? scene.open() { stores.withLock { $0.append(store) } }
                }
            }
            for thread in threads { thread.join() }
            #expect(stores.withLock { $0.count } == 4)
            #expect(try scene.database.query("SELECT count(*) FROM \(scene.owner).step_lock") == "1")
            try stores.withLock { $0 }.first?.step { try $0.write("INSERT INTO note(text) VALUES ('a')") }
            stores.withLock { $0 = [] }
            try scene.database.query(
                "DROP OWNED BY \(scene.owner) CASCADE; CREATE SCHEMA AUTHORIZATION \(scene.owner)")
        }
    }

    @Test("G8 a store that cannot be made leaves nothing behind, not even its lock")
    func leavesNothing() throws {
        let scene = try RoleScene()
        let wrong = Schema(module: "wrong", migrations: ["no statement"])
        #expect(code { _ = try scene.open([wrong]) } == .sql)
        #expect(
            try scene.database.query(
                "SELECT count(*) FROM pg_class WHERE relnamespace = '\(scene.owner)'::regnamespace") == "0")
    }

    @Test("G8 the process that holds the lock of steps is named, with its connection and those that wait")
    func holder() throws {
        let scene = try RoleScene()
        let (store, other) = (try scene.open(), try scene.open())
        let reader = try StoreReader(postgres: scene.settings(scene.owner))
        func holder() throws -> StepLockHolder? { try reader.read { try reader.stepLockHolder(in: $0) } }
        #expect(try holder() == nil)
        let threads = Mutex<[SystemThread]>([])
        try store.step { step in
            let process = try step.first("SELECT pg_catalog.pg_backend_pid()") { Int32($0.integer(0)) }
            let found = try holder()
            #expect(found?.processID == process && found?.waiters == 0)
            #expect(found?.application?.hasPrefix("durable-handlers node \(store.slotNumber) in ") == true)
            let waiting = try SystemThread("waiting") { _ = try? other.step { _ in } }
            threads.withLock { $0.append(waiting) }
            #expect(try becomesTrue(before: .now + .seconds(4)) { try holder()?.waiters == 1 })
        }
        for thread in threads.withLock({ $0 }) { thread.join() }
        // Somebody with the right to it may lock it otherwise.
        let person = PostgresConnection(
            try PostgresSettings(scene.settings(scene.owner), durability: nil), isReader: false)
        try person.executeOnce("BEGIN")
        try person.executeOnce("LOCK TABLE step_lock IN ACCESS EXCLUSIVE MODE")
        #expect(try holder()?.application == "durable-handlers")
    }

    // MARK: Dead nodes

    /// Adds nodes that were found dead.
    private func addDead(_ nodes: ClosedRange<Int>, _ scene: RoleScene) throws {
        for node in nodes {
            try scene.database.query(
                """
                INSERT INTO \(scene.owner).node(id, is_sharing) VALUES (\(node), 0);
                INSERT INTO \(scene.owner).node_lease(node, until, is_dead) VALUES (\(node), 0, 1)
                """)
        }
    }

    private func count(_ node: Int, _ scene: RoleScene) throws -> String {
        try scene.database.query("SELECT count(*) FROM \(scene.owner).node WHERE id = \(node)")
    }

    @Test(
        "G5 a connection of another role that has the name of a dead node's does not keep it from its recovery"
    )
    func sameName() throws {
        let scene = try RoleScene()
        let lines = LogLines()
        let store = try scene.open(log: lines.log)
        let schema = try scene.database.query("SELECT '\(scene.owner)'::regnamespace::oid::bigint")
        let guest = try scene.connectGuest(" application_name='durable-handlers node 100 in \(schema)'")
        try addDead(100...100, scene)
        let runner = try HandlerRunner(store)
        try runner.start()
        defer { runner.close() }
        #expect(try becomesTrue(before: .now + .seconds(20)) { try count(100, scene) == "0" })
        // It was left alone, and may be a machine's that logs in as another role.
        let found = lines.with("node 100 ")
        #expect(found.count == 1 && found.first?.contains("role \(scene.guest)") == true, "\(found)")
        #expect(try guest.firstOnce("SELECT 1") { $0.integer(0) } == 1)
    }

    @Test("G5 a node that cannot be fenced is reported, and the others are recovered all the same")
    func unfenced() throws {
        let scene = try RoleScene()
        let lines = LogLines()
        let store = try scene.open(log: lines.log)
        try scene.database.query(
            """
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF OLD.node = 100 THEN RAISE EXCEPTION 'not this one'; END IF; RETURN OLD; END $$;
            CREATE TRIGGER refuse BEFORE DELETE ON \(scene.owner).node_lease FOR EACH ROW EXECUTE FUNCTION refuse()
            """)
        try addDead(100...102, scene)
        let runner = try HandlerRunner(store)
        try runner.start()
        defer { runner.close() }
        for node in [101, 102] {
            #expect(try becomesTrue(before: .now + .seconds(20)) { try count(node, scene) == "0" })
        }
        #expect(try count(100, scene) == "1")
        let found = lines.with("node 100 ")
        #expect(found.count == 1 && found.first?.contains("not this one") == true, "\(found)")
        // Others are notified meanwhile.
        let other = try scene.open()
        store.notifyOthers()
        #expect(becomesTrue(before: .now + .seconds(20)) { other.notificationsByOthers > 0 })
    }

    @Test("G5 a fence waits for a transaction that holds the lease for much less than a lease")
    func fenceLimit() throws {
        let scene = try RoleScene()
        let store = try scene.open()
        try scene.database.query(
            """
            CREATE TABLE \(scene.owner).told(wait TEXT); ALTER TABLE \(scene.owner).told OWNER TO \(scene.owner);
            CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO \(scene.owner).told VALUES (current_setting('lock_timeout')); RETURN OLD; END $$;
            CREATE TRIGGER tell BEFORE DELETE ON \(scene.owner).node_lease FOR EACH ROW EXECUTE FUNCTION tell()
            """)
        try addDead(100...100, scene)
        #expect(
            try becomesTrue(before: .now + .seconds(20)) {
                try scene.database.query("SELECT count(*) FROM \(scene.owner).told") == "1"
            })
        #expect(try scene.database.query("SELECT wait FROM \(scene.owner).told") == "200ms")
        withExtendedLifetime(store) {}
    }

    @Test("G5 a log may use the store: what keeps a node from being fenced is reported with no lock held")
    func logUsesStore() throws {
        let scene = try RoleScene()
        let (current, hasLooked) = (Kept<HandlerStore?>(nil), Monitor<Bool?>(nil))
        let log = HandlerLog { entry in
            guard entry.message.contains("node 100 "), let store = current.withLock({ $0 }) else { return }
            let isAlive = Monitor<Bool?>(nil)
            // On a thread of its own, so that a lock that is held fails this test, and does not stop it.
            _ = try? SystemThread("looking") {
                isAlive.withLock { $0 = store.isAlive(slot: store.slotNumber) }
            }
            let found = isAlive.wait(limit: .seconds(20)) { $0 }
            hasLooked.withLock { $0 = found != nil }
        }
        let store = try scene.open(log: log)
        current.withLock { $0 = store }
        defer { current.withLock { $0 = nil } }
        let schema = try scene.database.query("SELECT '\(scene.owner)'::regnamespace::oid::bigint")
        let guest = try scene.connectGuest(" application_name='durable-handlers node 100 in \(schema)'")
        try addDead(100...100, scene)
        #expect(hasLooked.wait(limit: .seconds(40)) { $0 } == true)
        withExtendedLifetime(guest) {}
    }

    // MARK: Names

    @Test("G8 a schema in which every role may make functions is refused, with the statements that mend it")
    func openSchema() throws {
        let scene = try RoleScene()
        try scene.database.query("GRANT USAGE, CREATE ON SCHEMA \(scene.owner) TO PUBLIC")
        func refusals() -> [HandlerError?] {
            [
                failure { _ = try scene.open() },
                failure { try StoreReader(postgres: scene.settings(scene.owner)).read { _ in } },
            ]
        }
        for refusal in refusals() {
            #expect(refusal?.code == .databaseUnavailable)
            let words = "REVOKE CREATE ON SCHEMA \"\(scene.owner)\" FROM PUBLIC"
            #expect(refusal?.message.contains(words) == true, "\(refusal as Any)")
        }
        #expect(
            try scene.database.query("SELECT to_regclass('\(scene.owner).module_schema') IS NULL") == "t")
        try scene.database.query("REVOKE CREATE ON SCHEMA \"\(scene.owner)\" FROM PUBLIC")
        let store = try scene.open()
        #expect(refusals().allSatisfy { $0 == nil })
        withExtendedLifetime(store) {}
    }

    @Test("G8 all connections of a store look up names in its schema alone")
    func searchPath() throws {
        let scene = try RoleScene()
        try scene.database.query(
            "ALTER ROLE \(scene.owner) SET search_path = \(scene.owner), pg_temp, public")
        let store = try scene.open()
        let sql = "SELECT current_setting('search_path')"
        let expected = "\(scene.owner), pg_temp"
        #expect(try store.step { try $0.first(sql) { $0.text(0) } } == expected)
        #expect(try store.read { try $0.first(sql) { $0.text(0) } } == expected)
        let reader = try StoreReader(postgres: scene.settings(scene.owner))
        #expect(try reader.read { try $0.first(sql) { $0.text(0) } } == expected)
    }

    @Test("G8 no operator or function that another role has made in the schema of a store is called")
    func operators() throws {
        let scene = try RoleScene()
        try scene.database.query(
            "GRANT USAGE, CREATE ON SCHEMA \(scene.owner) TO \(scene.guest); ALTER DATABASE \(scene.database.name) SET track_functions = 'all'"
        )
        // What statements with inexact types would find before what the server has.
        var sql = "SET search_path = \(scene.owner);"
        for (operation, left, right, result) in [
            ("||", "name", "name", "text"), ("||", "text", "name", "text"), ("||", "name", "text", "text"),
            ("||", "text", "oid", "text"), ("*", "numeric", "integer", "numeric"),
            ("=", "name", "regnamespace", "boolean"), ("=", "oid", "regnamespace", "boolean"),
            ("=", "oid", "regclass", "boolean"), ("<>", "text", "name", "boolean"),
            (">", "smallint", "name", "boolean"), ("=", "\"char\"", "name", "boolean"),
        ] {
            let name = "evil_\(abs((operation + left + right).hashValue))"
            sql += """
                CREATE FUNCTION \(name)(\(left), \(right)) RETURNS \(result) LANGUAGE plpgsql AS
                    $$ BEGIN RAISE EXCEPTION 'called'; END $$;
                CREATE OPERATOR \(operation) (FUNCTION = \(name), LEFTARG = \(left), RIGHTARG = \(right));
                """
        }
        for function in [
            "set_config(text, text, boolean)", "hashtextextended(text, integer)", "nextval(text)",
            "pg_terminate_backend(bigint, bigint)", "pg_get_serial_sequence(name, name)",
            "to_regclass(name)", "pg_notify(name, name)", "concat(text, text)",
            "has_schema_privilege(text, oid, text)", "pg_advisory_xact_lock(integer)",
        ] {
            sql += """
                CREATE FUNCTION \(function) RETURNS text LANGUAGE plpgsql AS
                    $$ BEGIN RAISE EXCEPTION 'called'; END $$;
                """
        }
        try scene.queryAsGuest(sql)
        let (store, other) = (try scene.open(), try scene.open())
        let runner = try HandlerRunner(store)
        try runner.start()
        _ = try store.step { try $0.schedule(Remark(text: "a").durable, after: .zero) }
        #expect(try becomesTrue(before: .now + .seconds(20)) { try store.texts() == ["a"] })
        try addDead(100...100, scene)
        #expect(try becomesTrue(before: .now + .seconds(20)) { try count(100, scene) == "0" })
        runner.close()
        let reader = try StoreReader(postgres: scene.settings(scene.owner))
        try reader.read { snapshot in
            _ = try reader.processes(in: snapshot)
            _ = try reader.stepLockHolder(in: snapshot)
        }
        // Each is counted when the session that has called it ends or rests.
        withExtendedLifetime(other) {}
        #expect(
            try scene.database.query(
                "SELECT string_agg(funcname, ' ') FROM pg_stat_user_functions WHERE calls > 0") == "")
    }
}
