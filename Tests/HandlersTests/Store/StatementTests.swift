import Handlers
import TestThreads
import TestSupport
import Testing

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct StatementTests {
    @Test("H18 a query may run itself again for each of its own rows")
    func reentrant() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            try store.step { step in
                for text in ["a", "b", "c"] { try step.execute("INSERT INTO note(text) VALUES (?)", text) }
            }
            let pairs = try store.step { step in
                let limit = Counter(100)
                return try step.all("SELECT text FROM note ORDER BY id") { outer throws(HandlerError) in
                    // The same text, so the same cached statement: it must not restart the outer one.
                    try limit.count()
                    let inner = try step.all("SELECT text FROM note ORDER BY id") { $0.text(0) }
                    return outer.text(0) + inner.joined()
                }
            }
            #expect(pairs == ["aabc", "babc", "cabc"])
        }
    }

    @Test("R1 what one engine cannot store, none does, and nothing of the step is kept")
    func unstorable() throws {
        let table = Schema(module: "kinds", migrations: ["CREATE TABLE kind(r REAL, t TEXT)"])
        try withFolder { folder in
            let store = try openStore(folder.file(), schemas: [notes, table])
            let values: [(any SQLConvertible, any SQLConvertible)] = [
                (Double.nan, "a"), (-Double.signalingNaN, "a"), (1.5, "\0"), (1.5, "a\0"),
                (1.5, String(repeating: "x", count: 70_000) + "\0"),
            ]
            for (real, text) in values {
                let code = code {
                    try store.step { step in
                        try step.note("undone")
                        try step.execute("INSERT INTO kind(r, t) VALUES (?, ?)", real, text)
                    }
                }
                #expect(code == .argumentNotEncodable)
            }
            for real in [Double.infinity, -.infinity, -0.0, .leastNonzeroMagnitude] {
                try store.step { try $0.execute("INSERT INTO kind(r, t) VALUES (?, ?)", real, "\u{1}") }
            }
            let stored = try store.step { try $0.all("SELECT r FROM kind") { $0.real(0) } }
            #expect(stored == [.infinity, -.infinity, -0.0, .leastNonzeroMagnitude])
            #expect(try store.notes() == [])
        }
    }

    @Test("H18 a query with values may run itself again inside, with other values")
    func reentrantWithValues() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let sql = "SELECT ? || ? UNION ALL SELECT 'x'"
            let found = try store.step { step in
                let limit = Counter(100)
                return try step.all(sql, "a", "b") { outer throws(HandlerError) in
                    try limit.count()
                    return outer.text(0) + (try step.first(sql, "c", "d") { $0.text(0) } ?? "")
                }
            }
            #expect(found == ["abcd", "xcd"])
        }
    }

    @Test("H18 an error thrown while a row is read leaves the statement fit for use")
    func errorInReader() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            try store.step { step in
                try step.execute("INSERT INTO note(text) VALUES ('a'), ('b')")
                for _ in 0..<3 {
                    let code = code {
                        _ = try step.all("SELECT text FROM note") { _ throws(HandlerError) -> Int in
                            throw HandlerError(.wrongArgument, "not what was expected")
                        }
                    }
                    #expect(code == .wrongArgument)
                    #expect(try step.first("SELECT text FROM note") { $0.text(0) } == "a")
                }
                // A statement that were still open would refuse this.
                try step.execute("DROP TABLE note")
            }
        }
    }

    @Test("H18 a failing statement can be run again with better values")
    func errorThenReuse() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            try store.step { step in
                let sql = "INSERT INTO note(id, text) VALUES (1, ?)"
                try step.execute(sql, "a")
                #expect(code { try step.execute(sql, "b") } == .sql)
                try step.execute("DELETE FROM note")
                try step.execute(sql, "c")
            }
            #expect(try store.notes() == ["c"])
        }
    }

    @Test("H18 the first row of a change with RETURNING is read and the change is whole")
    func returning() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            try store.step { step in
                let first = try step.first("INSERT INTO note(text) VALUES ('a'), ('b'), ('c') RETURNING text")
                {
                    $0.text(0)
                }
                #expect(first == "a")
            }
            #expect(try store.notes() == ["a", "b", "c"])
        }
    }

    @Test("H18 a statement prepared before the tables changed still works")
    func schemaChange() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            try store.step { step in
                try step.execute("INSERT INTO note(text) VALUES ('a')")
                #expect(try step.first("SELECT * FROM note") { $0.text(1) } == "a")
                try step.execute("ALTER TABLE note ADD COLUMN extra TEXT DEFAULT 'b'")
                #expect(try step.first("SELECT * FROM note") { $0.text(2) } == "b")
            }
        }
    }

    @Test("H18 statements built from values do not make the cache grow without limit", .sqliteOnly)
    func cacheLimit() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            try store.step { step in
                for index in 0..<5_000 {
                    try step.execute("INSERT INTO note(text) VALUES ('\(index)')")
                }
            }
            // SQLite lists the prepared statements of a connection in this virtual table, where it is compiled in.
            let compiled = try store.integer(
                "SELECT count(*) FROM pragma_module_list WHERE name = 'sqlite_stmt'")
            if compiled == 1 {
                let prepared = try #require(try store.integer("SELECT count(*) FROM sqlite_stmt"))
                #expect(prepared < 300)
            }
            #expect(try store.notes().count == 5_000)
        }
    }

    @Test("H18 asking for the first row does not run through the rest", .sqliteOnly)
    func firstStops() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            // Without an end: a query that ran on would never return.
            let endless =
                "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number) SELECT n FROM number"
            #expect(try store.integer(endless) == 1)
        }
    }

    @Test(
        "H18 what a statement that is still running forbids is reported as such, not as a lock of another process",
        .effectsInMemory
    )
    func ownLock() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.bind(Greet(name: "Juliet").durable)
            try store.step { step in
                try step.execute("CREATE TABLE other(x)")
                var errors: [HandlerError?] = []
                _ = try step.first("INSERT INTO other VALUES (1) RETURNING x") { (_) throws(HandlerError) in
                    errors.append(error { try step.end(id, .result, with: Reply()) })
                }
                _ = try step.first("SELECT x FROM other") { (_) throws(HandlerError) in
                    errors.append(error { try step.execute("DROP TABLE other") })
                }
                #expect(errors.map { $0?.code } == [.sql, .sql])
                #expect(errors[0]?.message.contains("in progress") == true)
                #expect(errors[1]?.message.contains("locked") == true)
                // Neither spoils the step.
                #expect(try step.end(id, .result, with: Reply()) == .ended)
            }
            #expect(try store.notes() == ["Hello, Juliet"])
        }
    }
}
