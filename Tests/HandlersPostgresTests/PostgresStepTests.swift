import Handlers
import Platform
import Synchronization
import TestServers
import TestThreads
import Testing

@testable import HandlersPostgres

/// Steps of a store on PostgreSQL.
@Suite(.ownThread) struct PostgresStepTests {
    @Test(
        "G4 a step sees what others committed while it waited for the lock of steps, whatever the database's default is"
    )
    func isolation() throws {
        let database = try PostgresServer.shared.makeDatabase()
        try database.query(
            "ALTER DATABASE \(database.name) SET default_transaction_isolation = 'serializable'")
        let store = try openStore(database)
        let level = try store.step { step in
            try step.first("SELECT current_setting('transaction_isolation')") { $0.text(0) }
        }
        #expect(level == "read committed")
    }

    @Test("G4 a handler that ends leaves its effect, its ending and nothing else")
    func ends() throws {
        try withStore { store, database in
            let id = try store.step { try $0.bind(Note(text: "a").durable) }
            #expect(try store.step { try $0.end(id, .result, with: 1) } == .ended)
            #expect(try store.texts() == ["a"])
            #expect(code { try store.step { _ = try $0.end(id, .result, with: 1) } } == .noSuchHandler)
            let rows = "SELECT (SELECT count(*) FROM handler), (SELECT count(*) FROM ending)"
            #expect(try database.query(rows) == "0|1")
        }
    }

    @Test(
        "G4 a part of a step that fails after it has written is undone, and the rest of the step is kept, by a second run"
    )
    func undoes() throws {
        try withStore { store, database in
            let (bad, good) = try store.step { step in
                (
                    try step.bind(Note(text: "bad", fails: true).durable),
                    try step.bind(Note(text: "good").durable)
                )
            }
            let runs = Atomic<Int>(0)
            try store.step { step in
                runs.add(1, ordering: .relaxed)
                try step.write("INSERT INTO note(text) VALUES ('before')")
                guard case .quarantined = try step.end(bad, .result, with: 1) else { throw Refusal() }
                #expect(try step.end(good, .result, with: 1) == .ended)
            }
            #expect(runs.load(ordering: .relaxed) == 2)
            #expect(try store.texts() == ["before", "good"])
            // The next step is optimistic again.
            try store.step { _ in runs.add(1, ordering: .relaxed) }
            #expect(runs.load(ordering: .relaxed) == 3)
        }
    }

    @Test("G4 a step without trouble runs once")
    func runsOnce() throws {
        try withStore { store, _ in
            let runs = Atomic<Int>(0)
            try store.step { step in
                runs.add(1, ordering: .relaxed)
                try step.write("INSERT INTO note(text) VALUES ('a')")
            }
            #expect(runs.load(ordering: .relaxed) == 1)
            #expect(try store.texts() == ["a"])
        }
    }

    @Test("G4 a step goes on after a statement that fails, as with SQLite")
    func goesOn() throws {
        try withStore { store, _ in
            try store.step { step in
                try step.write("INSERT INTO note(id, text) VALUES (1, 'a')")
                _ = try? step.execute("INSERT INTO note(id, text) VALUES (1, 'again')")
                _ = try? step.execute("no statement")
                try step.write("INSERT INTO note(id, text) VALUES (2, 'b')")
            }
            #expect(try store.texts() == ["a", "b"])
        }
    }

    @Test("G4 a value of another type fails the step and is not converted")
    func wrongTypes() throws {
        try withStore { store, _ in
            let sql = "INSERT INTO note(text) VALUES (?)"
            #expect(code { try store.step { try $0.write(sql, 1) } } == .sql)
            #expect(code { try store.step { try $0.write(sql, [UInt8](repeating: 1, count: 3)) } } == .sql)
            #expect(code { try store.step { try $0.write(sql, "a\0b") } } == .argumentNotEncodable)
            #expect(code { try store.step { try $0.write("UPDATE balance SET total = ?", "1") } } == .sql)
            let texts = try store.texts()
            #expect(texts.isEmpty)
        }
    }

    @Test("G4 values of every kind come back as they were stored")
    func values() throws {
        let table = Schema(
            module: "kinds", migrations: ["CREATE TABLE kind(i INTEGER, r REAL, t TEXT, b BLOB)"])
        let database = try PostgresServer.shared.makeDatabase()
        defer { withExtendedLifetime(database) {} }
        let store = try openStore(database, schemas: [table])
        let sql = "INSERT INTO kind VALUES (?, ?, ?, ?)"
        let bytes = [UInt8](0...255)
        for (integer, text) in zip([Int64.min, .max], ["", "é\u{1F600}\n'\"\\"]) {
            try store.step { try $0.write(sql, integer, -0.1, text, bytes) }
            let found = try store.read { snapshot in
                try snapshot.first("SELECT i, r, t, b FROM kind WHERE i = ?", integer) {
                    ($0.integer(0), $0.real(1), $0.text(2), $0.blob(3))
                }
            }
            #expect(found.map { $0 == (integer, -0.1, text, bytes) } == true)
        }
        try store.step { try $0.write(sql, SQLValue.null, SQLValue.null, SQLValue.null, SQLValue.null) }
        // A sum is of a type of its own.
        let sums = try store.read { snapshot in
            try snapshot.first("SELECT sum(i), count(*), count(r) FROM kind") {
                ($0.integer(0), $0.integer(1), $0.integer(2))
            }
        }
        #expect(sums.map { $0 == (-1, 3, 2) } == true)
    }

    @Test("G4 no step overwrites what another store has written since it looked")
    func conflicts() throws {
        let database = try PostgresServer.shared.makeDatabase()
        let stores = try (0..<2).map { _ in try openStore(database) }
        let failures = Atomic<Int>(0)
        let threads = try stores.map { store in
            try SystemThread("adding") {
                for _ in 0..<40 {
                    let isDone: Void? = try? store.step { step in
                        let total = try step.first("SELECT total FROM balance") { $0.integer(0) } ?? 0
                        try step.write("UPDATE balance SET total = ?", total + 1)
                    }
                    if isDone == nil { failures.add(1, ordering: .relaxed) }
                }
            }
        }
        for thread in threads { thread.join() }
        #expect(failures.load(ordering: .relaxed) == 0)
        #expect(try database.query("SELECT total FROM balance") == "80")
    }

    @Test("G4 two steps that look at what the other is about to write do not cross")
    func crossing() throws {
        let database = try PostgresServer.shared.makeDatabase()
        defer { withExtendedLifetime(database) {} }
        let stores = try (0..<2).map { _ in try openStore(database) }
        for round in 0..<20 {
            let threads = try stores.map { store in
                try SystemThread("looking") {
                    try? store.step { step in
                        let found = try step.first("SELECT count(*) FROM note WHERE text = ?", "\(round)") {
                            $0.integer(0)
                        }
                        // Only the first of both finds none.
                        if found == 0 { try step.write("INSERT INTO note(text) VALUES (?)", "\(round)") }
                    }
                }
            }
            for thread in threads { thread.join() }
        }
        let texts = try stores[0].texts()
        #expect(texts == (0..<20).map { "\($0)" })
    }

    @Test("G4 a step that others keep waiting says so")
    func locked() throws {
        let database = try PostgresServer.shared.makeDatabase()
        defer { withExtendedLifetime(database) {} }
        let (holder, store) = (try openStore(database), try openStore(database))
        try holder.step { step in
            try step.write("INSERT INTO note(text) VALUES ('a')")
            _ = try step.all("SELECT 1") { $0.integer(0) }
            let waiting = code { try store.step { try $0.write("INSERT INTO note(text) VALUES ('b')") } }
            #expect(waiting == .databaseLocked)
        }
        let texts = try store.texts()
        #expect(texts == ["a"])
    }

    @Test(
        "G4 a statement that was prepared before a table changed works, also when another store has changed it"
    )
    func changedTables() throws {
        try withStore { store, database in
            let read: (borrowing Step) throws -> Int = { step in
                try step.all("SELECT * FROM balance") { $0.integer(1) }.count
            }
            #expect(try store.step(read) == 1)
            try database.query("ALTER TABLE balance ADD COLUMN more TEXT")
            #expect(try store.step(read) == 1)
        }
    }

    @Test("G4 a step keeps its transaction, and a read writes nothing")
    func refusals() throws {
        try withStore { store, _ in
            for sql in ["COMMIT", "ROLLBACK", "SAVEPOINT a", "END"] {
                #expect(code { try store.step { _ = try $0.execute(sql) } } == .sql)
            }
            #expect(code { try store.read { try $0.first("DELETE FROM note") { _ in } } } == .sql)
            #expect(code { try store.step { _ = try $0.execute("SELECT 1; SELECT 2") } } == .sql)
            try store.step { try $0.write("INSERT INTO note(text) VALUES ('a')") }
            #expect(try store.texts() == ["a"])
        }
    }
}
