import Foundation
import Glibc
import Handlers
import TestSupport
import TestThreads
import Testing

/// A store that Litestream replicates, and what it restores.
@Suite(.serialized, .ownThread, .timeLimit(.minutes(3))) struct LitestreamTests {
    private let fill = Schema(module: "fill", migrations: ["CREATE TABLE fill(bytes BLOB)"])

    @Test(
        "G1 a store with the tables of Litestream is opened, migrated and verified, and no step waits for Litestream's read transaction"
    )
    func tables() throws {
        try withFolder { folder in
            _ = try openStore(folder.file())
            let litestream = try LitestreamStandIn(folder.file())
            // Waits for no lock.
            let store = try openStore(folder.file(), schemas: [notes, fill], busyTimeout: .zero)
            let id = try store.bind(Greet(name: "Juliet").durable)
            #expect(try store.verify() == [])
            #expect(try store.end(id) == .ended)
            #expect(try store.notes() == ["Hello, Juliet"])
            #expect(try openStore(folder.file(), busyTimeout: .zero).notes() == ["Hello, Juliet"])
            #expect(try store.integer("SELECT copies FROM place") == 0)
            let tables = "SELECT count(*) FROM sqlite_schema WHERE name LIKE '\\_litestream%' ESCAPE '\\'"
            #expect(try store.integer(tables) == 2)
            withExtendedLifetime(litestream) {}
        }
    }

    @Test(
        "G1 the log grows while Litestream reads, starts again after its checkpoints, and is cut by TRUNCATE or once Litestream has ended"
    )
    func log() throws {
        try withFolder { folder in
            let store = try openStore(folder.file(), schemas: [notes, fill])
            var litestream: LitestreamStandIn? = try LitestreamStandIn(folder.file())
            func write(megabytes: Int) throws {
                for _ in 0..<megabytes {
                    try store.step { _ = try $0.execute("INSERT INTO fill VALUES (zeroblob(1000000))") }
                    // A read that did not end would keep the log from starting again.
                    _ = try store.read { try $0.first("SELECT count(*) FROM fill") { $0.integer(0) } }
                }
            }
            let size = { bytes(of: folder.file() + "-wal").count }
            try write(megabytes: 24)
            let highest = size()
            #expect(highest > 24_000_000)
            for _ in 0..<2 {
                try litestream?.checkpoint("PASSIVE")
                try write(megabytes: 12)
                // Litestream's connection, which starts the log again, has no limit for it.
                #expect(size() == highest)
            }
            try litestream?.checkpoint("TRUNCATE")
            #expect(size() < 1 << 20)
            try write(megabytes: 20)
            #expect(size() > 20_000_000)
            litestream = nil
            // The first one empties the log into the database, the next one starts it again.
            for _ in 0..<2 { try store.bind(Greet(name: "Juliet").durable) }
            #expect(size() <= 16 << 20)
            #expect(try store.integer("SELECT count(*) FROM fill") == 68)
        }
    }

    @Test(
        "G1 what Litestream restores is a copy: what it lacks is bound again under its id, with another idempotency key",
        arguments: [false, true])
    func restored(isNewMachine: Bool) async throws {
        try await withFolder { folder in
            let (path, replica) = (folder.file(), folder.file("replica.db"))
            var litestream: LitestreamStandIn?
            /// The note of the handler that is bound first, which contains its id and its key.
            func run(_ path: String, replicates: Bool) async throws -> [String] {
                let store = try HandlerStore(
                    path: path, registry: HandlerRegistry([KeyNoting.self]), schemas: [notes])
                let runner = try HandlerRunner(store)
                defer { runner.close() }
                if replicates {
                    litestream = try LitestreamStandIn(path)
                    try litestream?.restore(to: replica)
                }
                let id = try store.bind(KeyNoting(name: "k").durable)
                _ = try store.step { try $0.end(id, .result, with: Job()) }
                let isDrained = try await runner.drain(for: .seconds(60))
                #expect(isDrained && id.rawValue == 1)
                #expect(try store.verify() == [])
                #expect(try store.integer("SELECT copies FROM place") == (replicates ? 0 : 1))
                return try store.notes()
            }
            let lost = try await run(path, replicates: true)
            litestream = nil
            let restored = isNewMachine ? folder.file("restored.db") : path
            // Litestream removes these before it restores.
            if !isNewMachine { for suffix in ["", "-wal", "-shm"] { unlink(path + suffix) } }
            try #require(rename(replica, restored) == 0)
            let again = try await run(restored, replicates: false)
            #expect(lost.count == 1 && again.count == 1 && lost != again)
            #expect(try openStore(restored, [KeyNoting.self]).integer("SELECT copies FROM place") == 1)
        }
    }
}
