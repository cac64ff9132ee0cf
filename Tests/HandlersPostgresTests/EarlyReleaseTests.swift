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
        SystemThread.sleep(microseconds: 500_000)
        #expect(!isDone.withLock { $0 })
        try server.setSynchronousStandbys(["second"])
        stepping.join()
        #expect(isDone.withLock { $0 })
        withExtendedLifetime((standby, other)) {}
    }
}
