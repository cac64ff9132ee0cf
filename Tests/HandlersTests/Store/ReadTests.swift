import Foundation
import Glibc
import Handlers
import Synchronization
import TestServers
import TestThreads
import TestSupport
import Testing

/// Reading without the write lock.
@Suite(.serialized, .ownThread, .timeLimit(.minutes(3)), .engines(.sqlite, .postgres)) struct ReadTests {
    private func count(_ source: borrowing some Readable) throws -> Int64? {
        try source.first("SELECT count(*) FROM note") { $0.integer(0) }
    }

    /// How many connections this process has open on the database.
    private func connections(_ folder: Folder) -> Int {
        folder.openFiles.filter { $0 == folder.file() }.count
    }

    // MARK: What a read sees

    @Test(
        "H32 a read beside a step sees what was committed before it, and the next one what the step committed"
    )
    func committed() throws {
        try withFolder { folder in
            let (store, other) = (try openStore(folder.file()), try openStore(folder.file()))
            try other.step { step in
                try step.execute("INSERT INTO note(text) VALUES ('one')")
                #expect(try store.read { try count($0) } == 0)
                #expect(try count(step) == 1)
            }
            #expect(try store.read { try count($0) } == 1)
        }
    }

    @Test("H32 a read sees one state from its start on, whatever is committed meanwhile")
    func oneState() throws {
        try withFolder { folder in
            let (store, other) = (try openStore(folder.file()), try openStore(folder.file()))
            for _ in 0..<2 {
                let before = try store.read { try count($0) }
                try store.read { snapshot in
                    try other.step {
                        try $0.execute("INSERT INTO note(text) VALUES ('before the first look')")
                    }
                    #expect(try count(snapshot) == before)
                    try other.step { try $0.execute("INSERT INTO note(text) VALUES ('before the second')") }
                    #expect(try count(snapshot) == before)
                }
            }
            #expect(try store.read { try count($0) } == 4)
        }
    }

    @Test("H32 a read has one time, that of the store's clock")
    func time() throws {
        try withFolder { folder in
            let now = try openStore(folder.file()).read { $0.now }
            #expect(now == Timestamp(milliseconds: 1_700_000_000_000))
        }
    }

    @Test("H32 handlers, endings and dropped calls are the same in a read and in a step", .countsInMemory)
    func handlers() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            let ended = try store.bind(Greet(name: "Juliet").durable)
            try store.end(ended)
            let failed = try store.bind(Greet(name: "Romeo").durable)
            try store.end(failed, with: Reply { _ in throw Failure() })
            let timed = try store.step {
                try $0.bind(
                    Greet(name: "nurse").durable, timeout: nil,
                    deadline: Timestamp(milliseconds: 1_700_000_060_000))
            }
            func all(_ source: borrowing some Readable) throws -> [String] {
                [
                    line(try source.ending(of: ended)) ?? "",
                    "\(try source.status(of: failed)?.reason ?? "")",
                    "\(try source.handlers(in: .quarantined).map(\.id))",
                    "\(try source.handlers(after: AnyHandlerID(failed)).map(\.id))",
                    "\(try source.droppedCalls())",
                ]
            }
            let read = try store.read { try all($0) }
            #expect(
                read == [
                    "1 test.greet result - 1700000000000", "the handler did not want to", "[\(failed)]",
                    "[\(timed)]", "[]",
                ])
            #expect(try store.step { try all($0) } == read)
        }
    }

    // MARK: What a read cannot do

    @Test(
        "H32 a statement that writes, or ends the transaction, is refused in a read and changes nothing",
        .sqliteOnly,
        arguments: [
            "INSERT INTO note(text) VALUES ('x') RETURNING id", "DELETE FROM note", "PRAGMA user_version = 7",
            "CREATE TABLE other(x)", "VACUUM",
        ])
    func refusesWrites(sql: String) throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            try store.step { try $0.execute("INSERT INTO note(text) VALUES ('kept')") }
            let refused = error { try store.read { _ = try $0.first(sql) { $0.integer(0) } } }
            #expect(refused?.code == .sql)
            #expect(refused?.message == "a snapshot only reads, and '\(sql)' writes; run it in a step")
            #expect(try store.notes() == ["kept"])
            #expect(try store.integer("PRAGMA user_version") == 0)
        }
    }

    @Test("H32 a read keeps its own transaction", arguments: ["COMMIT", "ROLLBACK", "BEGIN", "SAVEPOINT x"])
    func keepsTransaction(sql: String) throws {
        try withFolder { folder in
            let (store, other) = (try openStore(folder.file()), try openStore(folder.file()))
            try store.read { snapshot in
                #expect(code { _ = try snapshot.first(sql) { $0.integer(0) } } == .sql)
                try other.step { try $0.execute("INSERT INTO note(text) VALUES ('later')") }
                #expect(try count(snapshot) == 0)
            }
        }
    }

    @Test("H32 a read inside a step or a read is refused; a step inside a read commits apart from it")
    func nested() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            try store.step { step in
                #expect(code { try store.read { _ in } } == .nestedStep)
                try step.execute("INSERT INTO note(text) VALUES ('outer')")
            }
            try store.read { snapshot in
                #expect(code { try store.read { _ in } } == .nestedStep)
                try store.step { try $0.execute("INSERT INTO note(text) VALUES ('inner')") }
                #expect(try count(snapshot) == 1)
            }
            #expect(try store.notes() == ["outer", "inner"])
        }
    }

    @Test("H32 what a read throws comes out of it, and the next read works", .sqliteOnly)
    func passesErrors() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            for _ in 0..<HandlerStore.maximumReads + 1 {
                #expect(throws: Failure.self) { try store.read { _ in throw Failure() } }
                #expect(
                    code { try store.read { _ = try $0.first("SELECT nothing") { $0.integer(0) } } } == .sql)
            }
            #expect(try store.read { try count($0) } == 0)
            #expect(connections(folder) == 2)
        }
    }

    // MARK: Others

    @Test("H32 a process that was stopped inside a step holds up steps, and no read", .sqliteOnly)
    func besideFrozenWriter() throws {
        try withFolder { folder in
            let store = try openStore(folder.file(), busyTimeout: .zero)
            try store.step { try $0.execute("INSERT INTO note(text) VALUES ('one')") }
            let writer = try FrozenProcess(
                BuiltProduct.path("HandlersTestProgram"),
                ["hold", folder.file(), "INSERT INTO note(text) VALUES ('two')"], saying: "holding")
            // The first read opens a connection, the second has one.
            for _ in 0..<2 { #expect(try store.read { try count($0) } == 1) }
            // A second store finds its way as well.
            #expect(try openStore(folder.file(), busyTimeout: .zero).read { try count($0) } == 1)
            #expect(writer.isStopped)
            #expect(code { try store.step { _ in } } == .databaseLocked)
            #expect(try writer.thaw() == "committed")
            #expect(try store.read { try count($0) } == 2)
            writer.kill()
        }
    }

    @Test(
        "H32 as many reads run at once as may, each on a connection that is kept; one more waits for the end of one",
        .sqliteOnly
    )
    func bound() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            #expect(connections(folder) == 1, "a store that does not read has one")
            let inside = Atomic(0)
            let gate = Gate()
            let readers = (0..<HandlerStore.maximumReads).map { _ in
                Thread {
                    try? store.read { _ in
                        inside.add(1, ordering: .sequentiallyConsistent)
                        gate.wait()
                        inside.subtract(1, ordering: .sequentiallyConsistent)
                    }
                }
            }
            #expect(
                waitsUntil { inside.load(ordering: .sequentiallyConsistent) == HandlerStore.maximumReads })
            #expect(connections(folder) == 1 + HandlerStore.maximumReads)
            let (late, thread) = (Sink<Int>(), Sink<String>())
            let more = Thread {
                thread.append(
                    (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self")) ?? "")
                try? store.read { _ in late.append(inside.load(ordering: .sequentiallyConsistent)) }
            }
            // It sleeps, unless nobody holds it up.
            #expect(
                waitsUntil {
                    !late.values.isEmpty || isAsleep(thread.values.first)
                })
            gate.open()
            for thread in readers + [more] { thread.join() }
            #expect(late.values.count == 1)
            #expect(try #require(late.values.first) < HandlerStore.maximumReads)
            #expect(connections(folder) == 1 + HandlerStore.maximumReads)
        }
    }

    /// Asks again and again, until it is so or a minute has passed.
    private func waitsUntil(_ isSo: () throws -> Bool) rethrows -> Bool {
        let deadline = ContinuousClock.now + .seconds(60)
        while try !isSo() {
            guard ContinuousClock.now < deadline else { return false }
            sched_yield()
        }
        return true
    }

    /// - Parameter thread: Its folder in /proc.
    private func isAsleep(_ thread: String?) -> Bool {
        guard let thread else { return false }
        let status = try? String(contentsOfFile: "/proc/\(thread)/stat", encoding: .utf8)
        return status?.split(separator: ")").last?.hasPrefix(" S") == true
    }

    @Test("H32 threads that read while others write each see whole steps, and every read ends")
    func together() async throws {
        try await withFolder { folder in
            let store = try openStore(folder.file())
            let failures = Sink<String>()
            await concurrently(8) { index in
                do {
                    for _ in 0..<50 {
                        if index < 2 {
                            try store.step { step in
                                for _ in 0..<3 { try step.execute("INSERT INTO note(text) VALUES ('third')") }
                            }
                        } else if let count = try store.read({ try count($0) }), count % 3 != 0 {
                            failures.append("\(count) rows")
                        }
                    }
                } catch { failures.append("\(error)") }
            }
            #expect(failures.values == [])
            #expect(try store.read { try count($0) } == 300)
            #expect(connections(folder) <= 1 + HandlerStore.maximumReads)
        }
    }

    // MARK: The file

    @Test("H32 a store that has read closes all it has, and removes its log as if it had not", .sqliteOnly)
    func closes() throws {
        try withFolder { folder in
            var store: HandlerStore? = try openStore(folder.file())
            try store?.bind(Greet(name: "Juliet").durable)
            try store?.read { snapshot in
                // The last reference goes in the middle of a read, which goes on.
                store = nil
                let handlers = try snapshot.handlers()
                #expect(handlers.count == 1)
                #expect(access(folder.file() + "-wal", F_OK) == 0)
            }
            #expect(folder.openFiles == [])
            #expect(access(folder.file() + "-wal", F_OK) != 0)
        }
    }

    @Test(
        "H32 a file that was replaced or deleted is not read, on a connection that is open or on a new one",
        .sqliteOnly,
        arguments: [true, false], [true, false])
    func replaced(hasRead: Bool, isReplaced: Bool) throws {
        try withFolder { folder in
            let path = folder.file()
            try openStore(folder.file("other.db")).step {
                try $0.execute("INSERT INTO note(text) VALUES ('other')")
            }
            let store = try openStore(path)
            if hasRead { #expect(try store.read { try count($0) } == 0) }
            if isReplaced {
                #expect(rename(folder.file("other.db"), path) == 0)
            } else {
                #expect(unlink(path) == 0)
            }
            for _ in 0..<2 {
                let refused = error { try store.read { try count($0) } }
                #expect(refused?.code == .databaseUnavailable)
                #expect(refused?.message.contains(path) == true)
            }
            #expect(code { try store.step { try count($0) } } == .databaseUnavailable, "as a step says")
        }
    }

    @Test(
        "H32 a damaged page is an error of the reads that need it; once it is put back they work", .sqliteOnly
    )
    func damaged() throws {
        try withFolder { folder in
            let path = folder.file()
            try openStore(path).step { try $0.execute("INSERT INTO note(text) VALUES ('one')") }
            let page = try StoreReader(path: path).read {
                try $0.first("SELECT rootpage FROM sqlite_schema WHERE name = 'note'") { $0.integer(0) }
            }
            let offset = UInt64(try #require(page) - 1) * 4096
            let store = try openStore(path)
            let file = try FileHandle(forUpdating: URL(filePath: path))
            try file.seek(toOffset: offset)
            let whole = try #require(try file.read(upToCount: 4096))
            try file.seek(toOffset: offset)
            try file.write(contentsOf: Data(repeating: 0xff, count: 4096))
            #expect(code { try store.read { try count($0) } } == .databaseCorrupt)
            #expect(try store.read { try $0.handlers() } == [])
            try file.seek(toOffset: offset)
            try file.write(contentsOf: whole)
            try file.close()
            #expect(try store.read { try count($0) } == 1)
        }
    }

    @Test(
        "H32 a program that is older than the tables reads as its steps do: what it knows, while that is there"
    )
    func newerTables() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            func openNewer(_ script: String) throws {
                let newer = Schema(module: "notes", migrations: notes.migrations + [script])
                _ = try openStore(folder.file(), schemas: [newer])
            }
            #expect(try store.read { try count($0) } == 0)
            try openNewer("ALTER TABLE note ADD COLUMN color TEXT; INSERT INTO note(text) VALUES ('new')")
            #expect(try store.read { try count($0) } == 1)
            #expect(try store.step { try count($0) } == 1)
            #expect(code { try openStore(folder.file()) } == .databaseNewer)
        }
    }
}
