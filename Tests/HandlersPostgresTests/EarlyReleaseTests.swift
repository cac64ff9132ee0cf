@testable import Handlers
import Platform
import Synchronization
import TestServers
import TestSupport
import TestThreads
import Testing

@testable import HandlersPostgres

/// The lock of steps while the standby has not confirmed a commit.
@Suite(.ownThread, .timeLimit(.minutes(4))) struct EarlyReleaseTests {
    /// Waits until a commit waits for the standby.
    private func isAwaited(in database: TestDatabase) throws -> Bool {
        try becomesTrue(before: .now + .seconds(20)) {
            try database.query(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()"
            ) != "0"
        }
    }

    @Test(
        "G4 beside other nodes a step frees the lock before the standby has confirmed it, and returns after that"
    )
    func frees() throws {
        let server = try PostgresServer()
        try server.start()
        let standby = try server.makeStandby(name: "second", synchronous: true)
        let database = try server.makeDatabase()
        let store = try openStore(database, durability: .onStandby)
        let other = try openStore(database, durability: .onStandby)
        // Others wait for what it has committed only once they know of it.
        let isKnown = becomesTrue(before: .now + .seconds(40)) { (store.slot as? Node)?.isKnown == true }
        try #require(isKnown)
        // Nobody confirms anything.
        try server.setSynchronousStandbys(["absent"])
        let isDone = Mutex(false)
        let stepping = try SystemThread("stepping") {
            _ = try? store.step { try $0.write("INSERT INTO note(text) VALUES ('one')") }
            isDone.withLock { $0 = true }
        }
        #expect(
            try becomesTrue(before: .now + .seconds(20)) {
                try database.query("SELECT count(*) FROM note") == "1"
            })
        #expect(try isAwaited(in: database))
        #expect(!isDone.withLock { $0 })
        try server.setSynchronousStandbys(["second"])
        stepping.join()
        #expect(isDone.withLock { $0 })
        withExtendedLifetime((standby, other)) {}
    }

    @Test("G4 a step of a node that the others may not know yet is seen once the standby has confirmed it")
    func unknown() throws {
        let server = try PostgresServer()
        try server.start()
        let standby = try server.makeStandby(name: "second", synchronous: true)
        let database = try server.makeDatabase()
        let other = try openStore(database, durability: .onStandby)
        let store = try openStore(database, durability: .onStandby)
        try server.setSynchronousStandbys(["absent"])
        let stepping = try SystemThread("stepping") {
            _ = try? store.step { try $0.write("INSERT INTO note(text) VALUES ('one')") }
        }
        #expect(try isAwaited(in: database))
        let seen = try database.query("SELECT count(*) FROM note")
        // On a busy machine it may be known already.
        if (store.slot as? Node)?.isKnown == false { #expect(seen == "0") }
        try server.setSynchronousStandbys(["second"])
        stepping.join()
        #expect(try database.query("SELECT count(*) FROM note") == "1")
        withExtendedLifetime((standby, other)) {}
    }
}
