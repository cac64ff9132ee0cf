import Handlers
import Synchronization
import TestThreads
import TestSupport
import Testing

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct StepTests {
    @Test("H18 what a step writes commits together: the application's table, the bound handler")
    func commitsTogether() throws {
        try withFolder { folder in
            do {
                let store = try openStore(folder.file())
                try store.step { step in
                    try step.execute("INSERT INTO note(text) VALUES ('mine')")
                    try step.bind(Greet(name: "Juliet").durable)
                }
            }
            let store = try openStore(folder.file())
            #expect(try store.notes() == ["mine"])
            #expect(try store.waiting().count == 1)
        }
    }

    @Test("H18 a step that throws leaves nothing: no row, no handler, no ending, and throws the same error")
    func rollsBack() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.bind(Greet(name: "Juliet").durable)
            #expect(throws: Failure.self) {
                try store.step { step in
                    try step.execute("INSERT INTO note(text) VALUES ('mine')")
                    try step.bind(Greet(name: "Romeo").durable)
                    try step.end(id, .result, with: Reply())
                    throw Failure()
                }
            }
            #expect(try store.notes() == [])
            #expect(try store.waiting().map(\.id) == [id])
            #expect(try store.keptEnding(of: id) == nil)
            #expect(try store.end(id) == .ended)
        }
    }

    @Test("H18 a step inside a step is refused instead of waiting for itself for ever")
    func nested() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            try store.step { step in
                #expect(code { try store.step { _ in } } == .nestedStep)
                try step.execute("INSERT INTO note(text) VALUES ('outer')")
            }
            #expect(try store.notes() == ["outer"])
        }
    }

    @Test("H18 a handler that starts a step of its own is quarantined with that reason")
    func nestedInHandler() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.bind(Greet(name: "Juliet").durable)
            let reply = Reply { _ in try store.step { _ in } }
            guard case .quarantined(let reason) = try store.end(id, with: reply) else {
                Issue.record("the nested step went through")
                return
            }
            #expect(reason.contains("a step was started inside a step"))
        }
    }

    @Test("H18 the wall clock stands still within a step")
    func clock() throws {
        try withFolder { folder in
            let ticks = Atomic<Int64>(0)
            let store = try HandlerStore(
                path: folder.file(), registry: HandlerRegistry([Greet.self]),
                time: TimeSource(wall: { Timestamp(milliseconds: ticks.add(1, ordering: .relaxed).newValue) })
            )
            let times = try store.step { [$0.now, $0.now] }
            #expect(times[0] == times[1])
            #expect(try store.step { $0.now } > times[0])
        }
    }

    @Test(
        "H18 the clock of a step is read once it holds the write lock, not while it waits", .effectsInMemory)
    func clockAfterWaiting() throws {
        try withFolder { folder in
            let time = Atomic<Int64>(1)
            let store = try HandlerStore(
                path: folder.file(), registry: HandlerRegistry(),
                time: TimeSource(wall: {
                    Timestamp(milliseconds: time.load(ordering: .sequentiallyConsistent))
                }))
            let holder = try openStore(folder.file())
            let locked = Gate(), seen = Mutex<Int64>(0)
            let thread = try holder.step { _ in
                let thread = Thread {
                    locked.open()
                    let now = try? store.step { $0.now }
                    seen.withLock { $0 = now?.milliseconds ?? -1 }
                }
                locked.wait()
                time.store(2, ordering: .sequentiallyConsistent)
                return thread
            }
            thread.join()
            #expect(seen.withLock { $0 } == 2)
        }
    }

    @Test("H21 an action runs after the commit, never when the step or its handler is given up")
    func afterCommit() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let ran = Mutex<[String]>([])
            let note: @Sendable (String) -> Void = { text in ran.withLock { $0.append(text) } }
            let ids = try store.step { step in
                try (0..<2).map { _ throws in try step.bind(Greet(name: "Juliet").durable) }
            }
            try store.step { step in
                step.afterCommit {
                    // Outside the step: a new one may start.
                    note("step \((try? store.step { _ in true }) ?? false)")
                }
                try step.end(ids[0], .result, with: Reply { $0.afterCommit { note("handler") } })
                let failing = Reply {
                    $0.afterCommit { note("given up") }
                    throw Failure()
                }
                try step.end(ids[1], .result, with: failing)
                #expect(ran.withLock { $0 } == [])
            }
            #expect(throws: Failure.self) {
                try store.step { step in
                    step.afterCommit { note("never") }
                    throw Failure()
                }
            }
            #expect(ran.withLock { $0 } == ["step true", "handler"])
        }
    }

    @Test(
        "H18 values of every kind are stored and read back, with NULL distinguished from empty", .sqliteOnly)
    func values() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            try store.step { step in
                try step.execute("CREATE TABLE everything(a, b, c, d, e, f, g)")
                let changed = try step.execute(
                    "INSERT INTO everything VALUES (?, ?, ?, ?, ?, ?, ?)", Int64.min, 0.5, "one\u{1}in it",
                    [UInt8](), nil as String?, "", true)
                #expect(changed == 1)
                let row = try #require(
                    try step.first("SELECT * FROM everything") { row in
                        [
                            row.integer(0) == .min, row.real(1) == 0.5, row.text(2) == "one\u{1}in it",
                            row.blob(3) == [], !row.isNull(3), row.isNull(4), row.optionalText(4) == nil,
                            row.optionalText(5) == "", row.integer(6) == 1, row.optionalInteger(4) == nil,
                        ]
                    })
                #expect(row == Array(repeating: true, count: 10))
            }
        }
    }

    @Test("H18 a number that is not a number is refused, not stored as NULL", .sqliteOnly)
    func notANumber() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let code = code {
                try store.step { try $0.execute("INSERT INTO note(text) VALUES (?)", Double.nan) }
            }
            #expect(code == .argumentNotEncodable)
        }
    }

    @Test("H18 the number of changed rows is that of this statement, not of one before it", .sqliteOnly)
    func changes() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            try store.step { step throws in
                #expect(try step.execute("INSERT INTO note(text) VALUES ('a'), ('b')") == 2)
                #expect(try step.execute("CREATE TABLE other(x)") == 0)
                #expect(try step.execute("UPDATE note SET text = 'c' WHERE text = 'nobody'") == 0)
                #expect(try step.execute("DELETE FROM note") == 2)
            }
        }
    }

    @Test("H18 a faulty statement is an error with SQLite's reason, and the step can go on", .sqliteOnly)
    func faulty() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            try store.step { step in
                let syntax = error { try step.execute("INSRT INTO note") }
                #expect(syntax?.code == .sql)
                #expect(syntax?.message.contains("syntax error") == true)
                let constraint = error {
                    try step.execute("INSERT INTO note(text) VALUES (?)", nil as String?)
                }
                #expect(constraint?.code == .sql)
                #expect(constraint?.message.contains("NOT NULL") == true)
                let count = error { try step.execute("INSERT INTO note(text) VALUES (?)") }
                #expect(count?.message.contains("has 1 parameters, but 0 values") == true)
                #expect(error { try step.execute("") }?.code == .sql)
                try step.execute("INSERT INTO note(text) VALUES (?)", "after")
            }
            #expect(try store.notes() == ["after"])
        }
    }

    @Test(
        "H18 two statements in one string are refused: the second would be left out in silence", .sqliteOnly)
    func twoStatements() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            try store.step { step in
                let error = error {
                    try step.execute(
                        "INSERT INTO note(text) VALUES ('a'); INSERT INTO note(text) VALUES ('b')")
                }
                #expect(error?.code == .sql)
                #expect(error?.message.contains("one statement") == true)
                try step.execute("INSERT INTO note(text) VALUES ('c') ;  -- the end\n ")
            }
            #expect(try store.notes() == ["c"])
        }
    }

    @Test(
        "H18 a step does not let go of its transaction: BEGIN, COMMIT and the like are refused",
        arguments: ["BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT a", "RELEASE handler", " /**/ rollback"])
    func transactionControl(_ sql: String) throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let id = try store.bind(Greet(name: "Juliet").durable)
            #expect(try store.end(id, with: Reply { try $0.execute(sql) }) != .ended)
            #expect(try store.notes() == [])
            #expect(try store.waiting().map(\.state) == [RowState.quarantined])
        }
    }

    @Test("H18 a part of a step that throws is undone alone, with what it wanted done after the commit")
    func undoingOnError() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let ran = Sink<String>()
            try store.step { step in
                try step.execute("INSERT INTO note(text) VALUES ('before')")
                try step.undoingOnError {
                    try step.execute("INSERT INTO note(text) VALUES ('kept')")
                    #expect(throws: Failure.self) {
                        try step.undoingOnError {
                            step.afterCommit { ran.append("undone") }
                            try step.execute("INSERT INTO note(text) VALUES ('undone')")
                            throw Failure()
                        }
                    }
                    step.afterCommit { ran.append("kept") }
                }
                try step.execute("INSERT INTO note(text) VALUES ('after')")
            }
            #expect(try store.notes() == ["before", "kept", "after"])
            #expect(ran.values == ["kept"])
        }
    }
}
