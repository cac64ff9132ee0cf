import Handlers
import Platform
import Synchronization
import TestServers
import TestSupport
import TestThreads
import Testing

@testable import HandlersPostgres

/// Steps whose connection is lost.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct LostConnectionTests {
    private let others =
        "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND pid NOT IN (SELECT backend FROM node_lease)"

    @Test(
        "G4 a step whose connection was lost before or within it runs again on a new one, and is stored once")
    func lost() throws {
        try withStore { store, database in
            try database.query("SELECT pg_terminate_backend(pid) \(others)")
            let runs = Atomic<Int>(0)
            try store.step { step in
                try step.write("INSERT INTO note(text) VALUES ('a')")
                if runs.add(1, ordering: .relaxed).newValue == 1 {
                    _ = try step.all("SELECT 1") { $0.integer(0) }
                    try database.query("SELECT pg_terminate_backend(pid) \(others)")
                }
            }
            #expect(runs.load(ordering: .relaxed) == 2)
            #expect(try store.texts() == ["a"])
        }
    }

    @Test("G6 a step waits for a database that is away, and is stored once when it is back")
    func outage() throws {
        try withOwnServer { server, store in
            try whileAway(server) {
                try? store.step { try $0.write("INSERT INTO note(text) VALUES ('a')") }
            }
            #expect(try store.texts() == ["a"])
        }
    }

    /// A server of its own, whose commits wait for a standby that is not there.
    private func withWaitingCommit(
        end command: String, _ check: (_ runs: Int, _ texts: [String]) throws -> Void
    ) throws {
        try withOwnServer { server, store in
            try server.query("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            try server.query("SELECT pg_reload_conf()")
            // Processes that were there know it after their next statement.
            try server.query("CHECKPOINT")
            let runs = Atomic<Int>(0)
            let stepping = try SystemThread("stepping") {
                try? store.step { step in
                    runs.add(1, ordering: .relaxed)
                    try step.write("INSERT INTO note(text) VALUES ('a')")
                }
            }
            let waiting = "FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            try #require(
                try becomesTrue(before: .now + .seconds(40)) {
                    try server.query("SELECT count(*) \(waiting)") == "1"
                })
            try server.query("ALTER SYSTEM RESET synchronous_standby_names")
            try server.query("SELECT \(command)(pid) \(waiting)")
            try server.query("SELECT pg_reload_conf()")
            stepping.join()
            try check(runs.load(ordering: .relaxed), try store.texts())
        }
    }

    @Test(
        "G4 a commit whose connection is lost, or whose standby does not answer, is settled by its rows: it is not done twice",
        arguments: ["pg_terminate_backend", "pg_cancel_backend"])
    func inDoubt(command: String) throws {
        try withWaitingCommit(end: command) { runs, texts in
            #expect(texts == ["a"])
            #expect(runs == 1)
        }
    }

    @Test("G4 a step runs again whose connection was lost in a commit that was not done")
    func notCommitted() throws {
        try withStore { store, database in
            try database.query(
                """
                CREATE SEQUENCE deaths;
                CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF nextval('deaths') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
                    RETURN NULL;
                END $$;
                CREATE CONSTRAINT TRIGGER die AFTER INSERT ON note DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW EXECUTE FUNCTION die();
                """)
            let runs = Atomic<Int>(0)
            try store.step { step in
                runs.add(1, ordering: .relaxed)
                try step.write("INSERT INTO note(text) VALUES ('a')")
            }
            #expect(runs.load(ordering: .relaxed) == 2)
            #expect(try store.texts() == ["a"])
        }
    }
}
