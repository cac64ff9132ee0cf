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
    /// Waits until so many commits wait for the standby.
    private func areAwaited(_ count: Int, in database: TestDatabase) throws -> Bool {
        try becomesTrue(before: .now + .seconds(40)) {
            try database.query(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()"
            ) == "\(count)"
        }
    }

    @Test(
        "G4 beside other nodes a step frees the lock before the standby has confirmed it, and returns after that"
    )
    func frees() throws {
        let (server, standby) = try PostgresServer.startWithStandby()
        let database = try server.makeDatabase()
        let store = try openStore(database, durability: .onStandby)
        let other = try openStore(database, durability: .onStandby)
        // Others wait for what it has committed only once they know of it.
        let isKnown = becomesTrue(before: .now + .seconds(40)) { (store.slot as? Node)?.loop.isKnown == true }
        try #require(isKnown)
        // Nobody confirms anything.
        try server.setSynchronousStandbys(["absent"])
        let isDone = Mutex(false)
        let stepping = try SystemThread("stepping") {
            _ = try? store.step { try $0.write("INSERT INTO note(text) VALUES ('one')") }
            isDone.withLock { $0 = true }
        }
        #expect(
            try becomesTrue(before: .now + .seconds(40)) {
                try database.query("SELECT count(*) FROM note") == "1"
            })
        #expect(try areAwaited(1, in: database))
        #expect(!isDone.withLock { $0 })
        try server.setSynchronousStandbys(["second"])
        stepping.join()
        #expect(isDone.withLock { $0 })
        withExtendedLifetime((standby, other)) {}
    }

    @Test("G4 a step of a node that the others may not know yet is seen once the standby has confirmed it")
    func unknown() throws {
        let (server, standby) = try PostgresServer.startWithStandby()
        let database = try server.makeDatabase()
        let other = try openStore(database, durability: .onStandby)
        let store = try openStore(database, durability: .onStandby)
        try server.setSynchronousStandbys(["absent"])
        let stepping = try SystemThread("stepping") {
            _ = try? store.step { try $0.write("INSERT INTO note(text) VALUES ('one')") }
        }
        #expect(try areAwaited(1, in: database))
        let seen = try database.query("SELECT count(*) FROM note")
        // On a busy machine it may be known already.
        if (store.slot as? Node)?.loop.isKnown == false { #expect(seen == "0") }
        try server.setSynchronousStandbys(["second"])
        stepping.join()
        #expect(try database.query("SELECT count(*) FROM note") == "1")
        withExtendedLifetime((standby, other)) {}
    }

    @Test("G4 an ending by another node is taken for one once the standby has confirmed it")
    func ending() async throws {
        let (server, standby) = try PostgresServer.startWithStandby()
        let database = try server.makeDatabase()
        let store = try openStore(database, durability: .onStandby)
        let other = try openStore(database, durability: .onStandby)
        let isKnown = becomesTrue(before: .now + .seconds(40)) { (store.slot as? Node)?.loop.isKnown == true }
        try #require(isKnown)
        let id = try store.step { try $0.bind(Note(text: "a").durable) }
        let isTaken = Mutex(false)
        async let taking = {
            let ending = try await other.ending(of: id)
            isTaken.withLock { $0 = true }
            return ending.outcome
        }()
        // It has announced that it waits.
        let isAnnounced = try becomesTrue(before: .now + .seconds(40)) {
            try database.query("SELECT relations <> 0 FROM handler") == "t"
        }
        try #require(isAnnounced)
        try server.setSynchronousStandbys(["absent"])
        let stepping = try SystemThread("stepping") {
            _ = try? store.step { _ = try $0.end(id, .result, with: 1) }
        }
        // The commit of the ending, and the look at it.
        #expect(try areAwaited(2, in: database))
        #expect(!isTaken.withLock { $0 })
        try server.setSynchronousStandbys(["second"])
        stepping.join()
        #expect(try await taking == .result)
        withExtendedLifetime(standby) {}
    }

    @Test("G4 a node that is alone, with a commit in doubt before it, waits for the standby once")
    func doubt() throws {
        let (server, standby) = try PostgresServer.startWithStandby()
        let database = try server.makeDatabase()
        let store = try openStore(database, durability: .onStandby)
        let node = try #require(store.slot as? Node)
        // Others were there, as far as it could know, and are no more.
        let isAlone = becomesTrue(before: .now + .seconds(40)) { node.loop.countOfDoubts > 0 }
        try #require(isAlone)
        try server.setSynchronousStandbys(["absent"])
        let reading = try SystemThread("reading") { try? store.step { _ in } }
        #expect(try areAwaited(1, in: database))
        try server.setSynchronousStandbys(["second"])
        reading.join()
        #expect(node.loop.countOfDoubts == 0 && !node.hasOtherMachines)
        // It would wait for ever.
        try server.setSynchronousStandbys(["absent"])
        try store.step { _ in }
        try server.setSynchronousStandbys(["second"])
        withExtendedLifetime(standby) {}
    }
}
