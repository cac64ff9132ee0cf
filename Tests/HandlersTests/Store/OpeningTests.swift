import Foundation
import Glibc
import Handlers
import TestThreads
import TestSupport
import Testing

@Suite(.serialized, .ownThread) struct OpeningTests {
    @Test("S7 the database and its side files belong to their owner alone, whatever the umask")
    func fileMode() throws {
        try withFolder { folder in
            let store = try openStore(folder.file())
            try store.bind(Greet(name: "Juliet").durable)
            for suffix in ["", "-wal", "-shm"] {
                #expect(mode(of: folder.file() + suffix) == 0o600, "\(suffix)")
            }
        }
    }

    @Test("S7 an own database that others could read is closed to them when it is opened")
    func modeIsRepaired() throws {
        try withFolder { folder in
            _ = try openStore(folder.file())
            chmod(folder.file(), 0o644)
            _ = try openStore(folder.file())
            #expect(mode(of: folder.file()) == 0o600)
            // An empty file that someone made beforehand becomes a database of the same kind.
            _ = FileManager.default.createFile(
                atPath: folder.file("empty.db"), contents: nil, attributes: [.posixPermissions: 0o644])
            _ = try openStore(folder.file("empty.db"))
            #expect(mode(of: folder.file("empty.db")) == 0o600)
        }
    }

    @Test(
        "S7 a store uses write-ahead logging and foreign keys, and waits for the disk: FULL unless NORMAL is chosen"
    )
    func pragmas() throws {
        try withFolder { folder in
            let full = try HandlerStore(path: folder.file("full.db"), registry: HandlerRegistry())
            #expect(try full.texts("PRAGMA journal_mode") == ["wal"])
            #expect(try full.integer("PRAGMA synchronous") == 2)
            #expect(try full.integer("PRAGMA foreign_keys") == 1)
            let normal = try openStore(folder.file("normal.db"), synchronous: .normal)
            #expect(try normal.integer("PRAGMA synchronous") == 1)
            #expect(try normal.texts("PRAGMA journal_mode") == ["wal"])
        }
    }

    @Test("S7 the rows survive closing and opening, and no file stays open")
    func reopens() throws {
        try withFolder { folder in
            var ids: [HandlerID<Reply>] = []
            for name in ["a", "b"] {
                ids.append(try openStore(folder.file()).bind(Greet(name: name).durable))
            }
            #expect(folder.openFiles == [])
            let store = try openStore(folder.file())
            for id in ids { try store.end(id) }
            #expect(try store.notes() == ["Hello, a", "Hello, b"])
        }
    }

    @Test(
        "S7 a path is always a file, also where SQLite would read something else into it",
        arguments: [
            ":memory:", "file:x.db?mode=memory", "with space and ?#%20.db", "é.db",
        ])
    func pathIsAFile(_ name: String) throws {
        try withFolder { folder in
            let id = try openStore(folder.file(name)).bind(Greet(name: "Juliet").durable)
            #expect(mode(of: folder.file(name)) == 0o600)
            #expect(try openStore(folder.file(name)).end(id) == .ended)
        }
    }

    @Test("S7 a path that names no file is refused with its text", arguments: ["", ":memory:"])
    func noFile(_ path: String) throws {
        let error = error { _ = try openStore(path) }
        #expect(error?.code == .databaseUnavailable)
        #expect(
            error?.message == "a store is a file, and '\(path)' names none; give the path of a database file")
    }

    @Test("S7 opening an existing database does not drop the locks that this process holds on it")
    func locksAreKept() async throws {
        // Closing any descriptor of a file drops all POSIX locks of the process on it. Another process that found
        // the database unlocked would take itself for the last one and delete the write-ahead log beneath us.
        try await withFolder { folder in
            let store = try openStore(folder.file())
            try store.bind(Greet(name: "first").durable)
            _ = try openStore(folder.file())
            await #expect(processExitsWith: .success) { [path = folder.file() as String] in
                try openStore(path).bind(Greet(name: "child").durable)
            }
            #expect(mode(of: folder.file() + "-wal") != nil, "the log was deleted while a store was open")
            try store.bind(Greet(name: "last").durable)
            #expect(try store.waiting().count == 3)
            #expect(try openStore(folder.file()).waiting().count == 3)
        }
    }

    @Test("H12 opening a store looks at no handler that merely waits, however many there are")
    func opensWithoutLooking() throws {
        try withFolder { folder in
            let path = folder.file()
            try openStore(path).step { step in
                for _ in 0..<4000 { try step.bind(Greet(name: "Juliet").durable) }
            }
            // Pages in the middle of the table that any reader finds damaged.
            let file = try #require(FileHandle(forUpdatingAtPath: path))
            let pages = try file.seekToEnd() / 4096
            try #require(pages > 40)
            try file.seek(toOffset: pages / 2 * 4096)
            try file.write(contentsOf: Data(count: 8 * 4096))
            try file.close()
            let store = try openStore(path)
            #expect(try store.step { try $0.handlers(in: .parked) }.isEmpty)
            #expect(try store.step { try $0.handlers(in: .running) }.isEmpty)
            #expect(try store.step { try $0.requeueAll() } == 0)
            let error = #expect(throws: HandlerError.self) { try store.verify() }
            #expect(error?.code == .databaseCorrupt)
        }
    }
}
