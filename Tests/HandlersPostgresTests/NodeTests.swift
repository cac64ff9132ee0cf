@testable import Handlers
import Synchronization
import TestServers
import TestSupport
import TestThreads
import Testing

@testable import HandlersPostgres

/// Stores that have one database open.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct NodeTests {
    @Test("G5 a store that others took for dead commits nothing more")
    func fenced() throws {
        try withStore { store, database in
            try store.step { try $0.write("INSERT INTO note(text) VALUES ('before')") }
            try database.query("DELETE FROM node")
            #expect(throws: HandlerError.self) {
                try store.step { try $0.write("INSERT INTO note(text) VALUES ('after')") }
            }
            #expect(try store.texts() == ["before"])
        }
    }

    @Test("G5 what a store held that died is free as soon as another one looks, and one that lives keeps it")
    func recovers() throws {
        let database = try PostgresServer.shared.makeDatabase()
        let (dead, living) = (try openStore(database), try openStore(database))
        let id = try living.step { try $0.bind(Note(text: "a").durable) }
        try database.query(
            "UPDATE handler SET state = 3, lease = \(dead.slotNumber) WHERE id = \(id.rawValue)")
        let lease = "SELECT coalesce(lease, 0) || ' ' || state || ' ' || deaths FROM handler"
        _ = try openStore(database)
        #expect(try database.query(lease) == "\(dead.slotNumber) 3 0")
        let locks = "FROM pg_locks WHERE locktype = 'advisory' AND objid = \(dead.slotNumber)"
        try database.query("SELECT pg_terminate_backend(pid) \(locks)")
        try #require(
            try becomesTrue(before: .now + .seconds(40)) {
                try database.query("SELECT count(*) \(locks)") == "0"
            })
        _ = try openStore(database)
        #expect(try database.query(lease) == "0 0 1")
        #expect(try database.query("SELECT count(*) FROM node") == "1")
        withExtendedLifetime((dead, living)) {}
    }

    @Test("G5 a store that is closed leaves no node behind")
    func leaves() throws {
        let database = try PostgresServer.shared.makeDatabase()
        do { _ = try openStore(database) }
        #expect(try database.query("SELECT count(*) FROM node") == "0")
    }

    @Test("G5 a commit with work for others wakes them, and the death of a store does")
    func wakes() throws {
        let database = try PostgresServer.shared.makeDatabase()
        let (first, second) = (try openStore(database), try openStore(database))
        let calls = Atomic<Int>(0)
        let listener = Listener()
        second.addNeighborListener(listener) { calls.add(1, ordering: .relaxed) }
        try second.watchChanges()
        first.notifyOthers()
        let isWoken = becomesTrue(before: .now + .seconds(40)) { calls.load(ordering: .relaxed) > 0 }
        #expect(isWoken)
        #expect(second.notificationsByOthers == 1)
        // Its own are no news.
        second.notifyOthers()
        #expect(second.notificationsByOthers == 1)
        withExtendedLifetime((listener, database)) {}
    }

    private final class Listener: Sendable {}
}
