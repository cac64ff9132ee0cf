import Handlers
import Platform
import TestServers
import TestSupport
import TestThreads
import Testing

@testable import HandlersPostgres

/// How nodes are found to be dead, and how not.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct NodeDeathTests {
    @Test(
        "G5 a node whose connection has ended is under suspicion, whether or not its process number was given again",
        arguments: [
            ("pid + 1000000", "0", "server", true), ("pid", "start + 1", "server", true),
            ("pid", "start", "server", false), ("pid + 1000000", "0", "server + 1", false),
            ("pid + 1000000", "0", "NULL", false),
        ])
    func suspects(process: String, start: String, server: String, isGone: Bool) throws {
        let database = try PostgresServer.shared.makeDatabase()
        let store = try openStore(database)
        var other = try NodeTable(
            PostgresSettings(database.connection(), durability: .onPrimary), isReconnection: false)
        try database.query(
            """
            INSERT INTO node(id, is_sharing) VALUES (100, 0);
            INSERT INTO node_lease(node, until, server_start, backend, backend_start)
                SELECT 100, 9999999999999, \(server), \(process), \(start)
                FROM (SELECT server_start AS server, backend AS pid, backend_start AS start FROM node_lease) AS first
            """)
        _ = try other.bury(besides: store.slotNumber)
        #expect(other.suspects.map(\.node) == (isGone ? [100] : []))
    }

    @Test("G5 a node that has lost the connection of its lease alone is not dead: that of its steps is there")
    func onlyLease() throws {
        let database = try PostgresServer.shared.makeDatabase()
        // It makes the tables.
        do { _ = try openStore(database) }
        let settings = try PostgresSettings(database.connection(), durability: .onPrimary)
        var table = try NodeTable(settings, isReconnection: false)
        try database.query(
            """
            INSERT INTO node(id, is_sharing) VALUES (100, 0);
            INSERT INTO node_lease(node, until, server_start) VALUES (100, 9999999999999, \(NodeTable.server))
            """)
        do {
            let steps = PostgresConnection(settings, isReader: false)
            try steps.executeOnce(
                "SELECT pg_catalog.set_config('application_name'::text, \(NodeTable.connectionName(of: "100")), false)"
            )
            for _ in 0..<3 { _ = try table.bury(besides: 1) }
            #expect(table.suspects.isEmpty)
            #expect(try database.query("SELECT is_dead FROM node_lease") == "0")
        }
        let isDead = try becomesTrue(before: .now + .seconds(40)) {
            _ = try table.bury(besides: 1)
            return try database.query("SELECT count(*) FROM node_lease") == "0"
        }
        #expect(isDead)
    }

    @Test("G5 a node that was gone is not marked once it has another connection, or has renewed its lease")
    func connectedMeanwhile() throws {
        let database = try PostgresServer.shared.makeDatabase()
        do { _ = try openStore(database) }
        try database.query(
            """
            INSERT INTO node(id, is_sharing) VALUES (100, 0);
            INSERT INTO node_lease(node, until, backend, backend_start) VALUES (100, 9999999999999, 7, 7)
            """)
        let table = try NodeTable(
            PostgresSettings(database.connection(), durability: .onPrimary), isReconnection: false)
        func isMarked(_ backend: Int64, _ start: Int64, isGone: Bool) throws -> Bool {
            try table.mark(.init(node: 100, backend: backend, backendStart: start), isGone: isGone)
            return try database.query("SELECT is_dead FROM node_lease") == "1"
        }
        #expect(try !isMarked(6, 7, isGone: true))
        #expect(try !isMarked(7, 6, isGone: true))
        #expect(try !isMarked(7, 7, isGone: false))
        #expect(try isMarked(7, 7, isGone: true))
    }

    @Test("G5 a node whose connection has ended connects again at once, not with its next look")
    func connectsAtOnce() throws {
        let database = try PostgresServer.shared.makeDatabase()
        let store = try openStore(database)
        // It never looks a second time.
        let loop = try NodeLoop(
            PostgresSettings(database.connection(), durability: .onPrimary), tick: .seconds(3600))
        let thread = try SystemThread("node") { loop.run() }
        for _ in 0..<3 {
            try expectConnection(of: loop.number, database)
            try database.query(
                "SELECT pg_terminate_backend(backend::int, 5000) FROM node_lease WHERE node = \(loop.number)")
        }
        try expectConnection(of: loop.number, database)
        loop.stop()
        thread.join()
        loop.leave()
        withExtendedLifetime(store) {}
    }

    @Test("G5 a program that looks for the locks of earlier nodes cannot take new ones for dead")
    func earlierProgram() throws {
        try withStore { store, database in
            let lock = "hashtext('durable-handlers node ' || current_schema()), (node)::int"
            #expect(throws: (any Error).self) {
                try database.query(
                    """
                    SELECT node, CASE WHEN server IS DISTINCT FROM (
                                extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint THEN FALSE
                            WHEN pg_try_advisory_lock_shared(\(lock)) THEN pg_advisory_unlock_shared(\(lock))
                            ELSE FALSE END
                    FROM node_lease WHERE node <> 0 AND is_dead = 0
                    """)
            }
        }
    }

    @Test(
        "G5 nodes that have lost their connections together are dead at the second look, but for one that has just come back itself",
        arguments: [false, true])
    func allLinesLost(isReconnection: Bool) throws {
        let database = try PostgresServer.shared.makeDatabase()
        // It makes the tables.
        do { _ = try openStore(database) }
        try database.query(
            """
            INSERT INTO node(id, is_sharing) VALUES (100, 0);
            INSERT INTO node_lease(node, until, server_start) VALUES (100, 9999999999999, \(NodeTable.server))
            """)
        var table = try NodeTable(
            PostgresSettings(database.connection(), durability: .onPrimary), isReconnection: isReconnection)
        for _ in 0..<2 { _ = try table.bury(besides: 1) }
        #expect(table.suspects.map(\.node) == [100])
        let leases = try database.query("SELECT count(*) FROM node_lease")
        #expect(leases == (isReconnection ? "1" : "0"))
    }
}
