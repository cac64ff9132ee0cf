import Glibc
import Handlers
import TestServers
import TestSupport
import TestThreads
import Testing

@testable import HandlersPostgres

/// Stores that are moved from one engine to the other.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct StoreMoveTests {
    @Test(
        "G8 a store goes to PostgreSQL and back with every value of every row, and each place is retired when it is left"
    )
    func bothWays() throws {
        let scene = try MoveScene()
        try MoveScene.fill(scene.file, size: 2_000_000)
        let before = try MoveScene.contents(MoveScene.open(scene.file))
        let summary = try MoveScene.move(scene.file, scene.server).run()
        // A file that nobody has open is whole without a log.
        #expect(access(scene.folder.path + "/a.db-wal", F_OK) != 0)
        #expect(summary.rows > 300)
        #expect(!summary.wasCompleted)
        #expect(try MoveScene.contents(MoveScene.open(scene.server)) == before)

        let error = failure { _ = try MoveScene.open(scene.file) }
        #expect(error?.code == .databaseMoved)
        #expect(error?.message.contains("was moved to postgresql://") == true)
        #expect(
            failure { _ = try StoreReader(path: scene.folder.path + "/a.db").read { $0.now } }?.code
                == .databaseMoved)
        #expect(failure { try MoveScene.move(scene.file, scene.server).run() }?.code == .databaseMoved)
        #expect(failure { try MoveScene.move(scene.file, scene.server).undo() }?.code == .databaseMoved)

        let back = StoreMove.Place.file(scene.folder.path + "/b.db")
        try MoveScene.move(scene.server, back).run()
        #expect(try MoveScene.contents(MoveScene.open(back)) == before)
        let moved = failure { _ = try MoveScene.open(scene.server) }
        #expect(moved?.code == .databaseMoved)
        #expect(moved?.message.contains("/b.db") == true)
    }

    @Test("G8 a move tells how many rows are copied and compared")
    func progress() throws {
        let scene = try MoveScene()
        try MoveScene.fill(scene.file)
        try MoveScene.open(scene.file).step { step in
            for number in 0..<2000 { try step.write("INSERT INTO note(text) VALUES (?)", "\(number)") }
        }
        var found: [StoreMove.Progress] = []
        let move = MoveScene.move(scene.file, .file(scene.folder.path + "/b.db"))
        let rows = try move.run { found.append($0) }.rows
        var expected = [1000, 2000].map { StoreMove.Progress(rows: $0, all: rows) }
        expected += [1000, 2000, rows].map { StoreMove.Progress(isComparing: true, rows: $0, all: rows) }
        #expect(found == expected)
    }

    @Test("G8 a store goes to another file, and to another schema of a server")
    func sameKind() throws {
        let scene = try MoveScene()
        try MoveScene.fill(scene.file)
        let before = try MoveScene.contents(MoveScene.open(scene.file))
        let other = StoreMove.Place.file(scene.folder.path + "/b.db")
        try MoveScene.move(scene.file, other).run()
        try MoveScene.move(other, scene.server).run()
        try scene.database.query("CREATE SCHEMA elsewhere")
        let schema = StoreMove.Place.postgres(
            scene.database.connection() + " options='-c search_path=elsewhere'")
        try MoveScene.move(scene.server, schema).run()
        #expect(try MoveScene.contents(MoveScene.open(schema)) == before)
        let error = failure { _ = try MoveScene.open(scene.server) }
        #expect(error?.message.contains("(schema elsewhere)") == true)
    }

    @Test("G8 what was given is never given again: ids of handlers and rows, and the names of calls")
    func ids() throws {
        let scene = try MoveScene()
        try MoveScene.fill(scene.file)
        let newest = try MoveScene.open(scene.file).read { try $0.newestID(in: "handler") }
        try MoveScene.move(scene.file, scene.server).run()
        let onServer: Int64
        do {
            let store = try MoveScene.open(scene.server)
            onServer = try store.step { try $0.bind(Note(text: "new").durable) }.rawValue
            #expect(onServer == newest + 1)
            // Seven were given, of which two are gone.
            try store.step { try $0.execute("INSERT INTO kind(t) VALUES ('new')") }
            #expect(try store.number("SELECT max(id) FROM kind") == 8)
            try store.step { try $0.invalidate(HandlerID<Int>(rawValue: onServer), reason: .cancelled) }
        }
        let back = StoreMove.Place.file(scene.folder.path + "/b.db")
        try MoveScene.move(scene.server, back).run()
        let store = try MoveScene.open(back)
        #expect(try store.step { try $0.bind(Note(text: "new").durable) }.rawValue > onServer)
        // It is no copy: nothing starts again.
        #expect(try store.number("SELECT copies FROM place") == 0)
        #expect(try store.number("SELECT count(*) FROM identity") == 1)
    }

    @Test("G8 a move gives way to every process and machine that has the store open, and names it")
    func inUse() throws {
        let scene = try MoveScene()
        try MoveScene.fill(scene.file)
        do {
            let store = try MoveScene.open(scene.file)
            let error = failure { try MoveScene.move(scene.file, scene.server).run() }
            #expect(error?.code == .databaseLocked)
            #expect(error?.message.contains("process \(getpid())") == true)
            #expect(try store.texts().count == 301)
        }
        try MoveScene.move(scene.file, scene.server).run()
        let back = StoreMove.Place.file(scene.folder.path + "/b.db")
        let store = try MoveScene.open(scene.server)
        let error = failure { try MoveScene.move(scene.server, back).run() }
        #expect(error?.code == .databaseLocked)
        #expect(error?.message.contains("node \(store.slotNumber)") == true)
        #expect(try store.texts().count == 301)
    }

    @Test(
        "G8 a program that opens the store while it is marked, or the target while it is filled, is refused")
    func openedMeanwhile() throws {
        let scene = try MoveScene()
        try MoveScene.fill(scene.file)
        let source = try MoveSource(scene.file, schemas: MoveScene.schemas)
        let target = try MoveTarget(scene.server, .onPrimary)
        try target.database.begin()
        let mark = MoveMark(move: "number", target: target.name, hasMoved: false)
        try source.leave(with: mark)
        #expect(failure { _ = try MoveScene.open(scene.file) }?.code == .databaseMoved)
        _ = try StoreCopy(
            from: source.reader(), to: target.database, mark, MoveScene.move(scene.file, scene.server)
        ).run { _ in }
        #expect(failure { _ = try MoveScene.open(scene.server) }?.code == .databaseLocked)
    }

    @Test("G8 a place that has a store, or what one has left, is not taken")
    func taken() throws {
        let scene = try MoveScene()
        try MoveScene.fill(scene.file)
        _ = try MoveScene.open(scene.server)
        let error = failure { try MoveScene.move(scene.file, scene.server).run() }
        #expect(error?.code == .databaseForeign)
        #expect(error?.message.contains("holds a store already") == true)
        let other = scene.folder.path + "/b.db"
        try scene.folder.write("", to: "b.db-owners")
        #expect(
            failure { try MoveScene.move(scene.file, .file(other)).run() }?.message.contains("-owners")
                == true)
        #expect(failure { try MoveScene.move(scene.file, scene.file).run() }?.code == .databaseForeign)
        #expect(try MoveScene.open(scene.file).texts().count == 301)
    }

    @Test("G8 modules of other versions, and those that the program does not know, are refused")
    func modules() throws {
        let scene = try MoveScene()
        try MoveScene.fill(scene.file)
        func error(_ schemas: [Schema]) -> HandlerError? {
            failure { try MoveScene.move(scene.file, scene.server, schemas: schemas).run() }
        }
        #expect(error([notes])?.code == .databaseForeign)
        #expect(error([notes])?.message.contains("kinds") == true)
        let older = Schema(module: "kinds", migrations: [kinds.migrations[0]])
        #expect(error([notes, older])?.code == .databaseNewer)
        let newer = Schema(module: "kinds", migrations: kinds.migrations + ["CREATE TABLE more(a TEXT)"])
        #expect(error([notes, newer])?.code == .databaseOlder)
        try MoveScene.open(scene.file).change("CREATE TABLE by_hand(a TEXT)")
        #expect(error(MoveScene.schemas)?.message.contains("'by_hand'") == true)
        #expect(try scene.database.query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "0")
        #expect(try MoveScene.open(scene.file).texts().count == 301)
        // A module that the store has not is not made in the target either.
        try MoveScene.open(scene.file).change("DROP TABLE by_hand")
        let unused = Schema(module: "unused", migrations: ["CREATE TABLE unused(a TEXT)"])
        try MoveScene.move(scene.file, scene.server, schemas: MoveScene.schemas + [unused]).run()
        #expect(try scene.database.query("SELECT to_regclass('unused') IS NULL") == "t")
    }

    @Test(
        "G8 tables of unknown modules are made as the store keeps them, both ways, before and after their program has opened it",
        arguments: [false, true])
    func unknownModules(isOpened: Bool) throws {
        let scene = try MoveScene()
        try MoveScene.fill(scene.file)
        let before = try MoveScene.contents(MoveScene.open(scene.file))
        func move(_ source: StoreMove.Place, _ target: StoreMove.Place) throws {
            try StoreMove(
                from: source, to: target, schemas: [], durability: .onPrimary, takesUnknown: true
            ).run()
        }
        try move(scene.file, scene.server)
        let back = StoreMove.Place.file(scene.folder.path + "/b.db")
        if isOpened {
            let store = try MoveScene.open(scene.server)
            #expect(try MoveScene.contents(store) == before)
            #expect(try store.number("SELECT version FROM module_schema WHERE module = 'kinds'") == 2)
            // By the text of the migrations of its program from now on.
            try store.change("DELETE FROM migration_text WHERE module = ''")
        }
        try move(scene.server, back)
        let store = try MoveScene.open(back)
        #expect(try MoveScene.contents(store) == before)
        try store.change("INSERT INTO kind(t) VALUES ('new')")
        #expect(try store.number("SELECT max(id) FROM kind") == 8)
        #expect(
            try store.texts("SELECT sql FROM sqlite_schema WHERE name = 'alias'").first?.contains(
                "WITHOUT ROWID") == true)
        #expect(throws: HandlerError.self) { try store.change("INSERT INTO alias VALUES (4711, 'nobody')") }
    }

    @Test("G8 triggers of unknown modules go along, and a view that would be missing is refused")
    func triggersAndViews() throws {
        let scene = try MoveScene()
        let counted = Schema(
            module: "counted",
            migrations: [
                """
                CREATE TABLE counted(n INTEGER NOT NULL);
                CREATE TRIGGER counts AFTER INSERT ON counted BEGIN UPDATE counted SET n = n + 1; END;
                CREATE VIEW total AS SELECT sum(n) FROM counted;
                """
            ])
        try MoveScene.open(scene.file, schemas: MoveScene.schemas + [counted]).change(
            "INSERT INTO counted VALUES (1)")
        let target = StoreMove.Place.file(scene.folder.path + "/b.db")
        func refusal(_ target: StoreMove.Place) -> HandlerError? {
            failure {
                try StoreMove(
                    from: scene.file, to: target, schemas: MoveScene.schemas, durability: .onPrimary,
                    takesUnknown: true
                ).run()
            }
        }
        func expectRefusal(_ target: StoreMove.Place, _ name: String) {
            let error = refusal(target)
            #expect(
                error?.code == .databaseForeign && error?.message.contains(name) == true, "\(error as Any)")
        }
        expectRefusal(target, "'total'")
        try MoveScene.open(scene.file).change("DROP VIEW total")
        // Its text is that of SQLite.
        expectRefusal(scene.server, "'counted.counts'")
        #expect(refusal(target) == nil)
        let moved = try MoveScene.open(target)
        #expect(try moved.number("SELECT n FROM counted") == 2)
        try moved.change("INSERT INTO counted VALUES (5)")
        #expect(try moved.number("SELECT sum(n) FROM counted") == 9)
    }

    @Test("G8 a move touches no tables of other programs in the schema")
    func sharedSchema() throws {
        let scene = try MoveScene()
        try MoveScene.fill(scene.file)
        try scene.database.query(
            "CREATE TABLE theirs(id INTEGER PRIMARY KEY, of INTEGER REFERENCES theirs(id))")
        let other = try PostgresConnection(
            PostgresSettings(scene.database.connection(), durability: nil), isReader: true)
        // Its lock would stop an ALTER TABLE.
        try other.beginReading()
        defer { other.rollBack() }
        #expect(try other.firstOnce("SELECT count(*) FROM theirs") { $0.integer(0) } == 0)
        try MoveScene.move(scene.file, scene.server).run()
    }

    @Test("G8 tables of unknown modules whose texts PostgreSQL does not have are refused")
    func unknownTexts() throws {
        let scene = try MoveScene()
        try MoveScene.open(scene.server).change("DELETE FROM migration_text WHERE module = 'kinds'")
        let move = StoreMove(
            from: scene.server, to: scene.file, schemas: [notes], durability: .onPrimary, takesUnknown: true)
        let error = failure { try move.run() }
        #expect(error?.code == .databaseForeign)
        #expect(error?.message.contains("(kinds)") == true)
        // Its program keeps them again.
        _ = try MoveScene.open(scene.server)
        try move.run()
    }

    @Test(
        "G8 a value that the target cannot hold is named with its table, column and row, and the store is as it was",
        arguments: [
            ("INSERT INTO kind(id, t) VALUES (44, 'a' || char(0))", "'t'", "id = 44", "NUL"),
            ("INSERT INTO kind(id, i) VALUES (44, 'text')", "'i'", "id = 44", "bigint"),
            ("INSERT INTO kind(id, i) VALUES (44, 1.5)", "'i'", "id = 44", "bigint"),
            ("INSERT INTO kind(id, r) VALUES (44, 'text')", "'r'", "id = 44", "double precision"),
            ("INSERT INTO kind(id, t) VALUES (44, x'00')", "'t'", "id = 44", "text"),
            ("INSERT INTO kind(id, b) VALUES (44, 'text')", "'b'", "id = 44", "bytea"),
            ("INSERT INTO kind(id, t) VALUES (44, CAST(x'ff' AS TEXT))", "'t'", "id = 44", "UTF-8"),
            ("INSERT INTO loose VALUES (x'00', 1)", "'t'", "row 5", "text"),
        ])
    func misfits(insert: String, column: String, row: String, reason: String) throws {
        let scene = try MoveScene()
        try MoveScene.fill(scene.file)
        try MoveScene.open(scene.file).change(insert)
        let error = failure { try MoveScene.move(scene.file, scene.server).run() }
        #expect(error?.code == .argumentNotEncodable)
        for part in [column, row, reason, "'\(insert.contains("kind") ? "kind" : "loose")'"] {
            #expect(error?.message.contains(part) == true, "\(error?.message ?? "-") lacks \(part)")
        }
        #expect(try MoveScene.open(scene.file).texts().count == 301)
        #expect(try scene.database.query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "0")
    }

    @Test("G8 what SQLite cannot hold is named on the way back: a number that is none, and the sign of zero")
    func misfitsBack() throws {
        for value in ["'NaN'", "'-0'"] {
            let scene = try MoveScene()
            _ = try MoveScene.open(scene.server)
            try scene.database.query("INSERT INTO kind(id, r) VALUES (5, \(value))")
            let error = failure { try MoveScene.move(scene.server, scene.file).run() }
            #expect(error?.code == .argumentNotEncodable)
            #expect(error?.message.contains("'r'") == true && error?.message.contains("id = 5") == true)
            #expect(try MoveScene.open(scene.server).texts() == [])
        }
    }

    @Test(
        "G8 a row that is lost, added or altered on its way is found, and the target stays empty",
        arguments: [
            "DELETE FROM note WHERE id = 5", "UPDATE kind SET b = x'01' WHERE id = 1",
            "INSERT INTO loose VALUES ('more', 1)", "UPDATE person SET chief = NULL WHERE id = 1",
        ])
    func compared(change: String) throws {
        let scene = try MoveScene()
        try MoveScene.fill(scene.file)
        let other = StoreMove.Place.file(scene.folder.path + "/b.db")
        let source = try MoveSource(scene.file, schemas: MoveScene.schemas)
        let target = try MoveTarget(other, nil)
        try target.database.begin()
        let mark = MoveMark(move: "number", target: target.name, hasMoved: false)
        let reader = try source.reader()
        let copy = StoreCopy(from: reader, to: target.database, mark, MoveScene.move(scene.file, other))
        let pairs = try copy.copyAll { _ in }
        try target.database.connection.executeOnce(change)
        let error = failure { _ = try copy.compareAll(pairs) { _ in } }
        #expect(error != nil)
        try #require(
            error?.message.contains("'\(change.split(separator: " ")[change.hasPrefix("UPDATE") ? 1 : 2])'")
                == true)
    }

    @Test("G8 a copy of a store that no program has noticed is not moved")
    func copied() throws {
        let scene = try MoveScene()
        try MoveScene.fill(scene.file)
        let copy = scene.folder.path + "/copy.db"
        let content = try #require(try? Array(bytesOf: scene.folder.path + "/a.db"))
        try write(content, to: copy)
        let error = failure { try MoveScene.move(.file(copy), scene.server).run() }
        #expect(error?.code == .databaseForeign)
        #expect(error?.message.contains("is a copy") == true)
        // Once its program has noticed it, it is a store like others.
        _ = try MoveScene.open(.file(copy))
        try MoveScene.move(.file(copy), scene.server).run()
        #expect(try MoveScene.open(scene.server).number("SELECT copies FROM place") == 1)
    }

    @Test("G8 what a process held that was killed is free in the target")
    func freed() throws {
        let scene = try MoveScene()
        try MoveScene.fill(scene.server)
        // Of a node that nobody knows any more.
        try MoveScene.open(scene.server).change("UPDATE handler SET state = 3, lease = 77, due = NULL")
        try MoveScene.open(scene.server).change("INSERT INTO connected_slot VALUES ('', 77)")
        try MoveScene.move(scene.server, scene.file).run()
        // As it came, before it is opened.
        let file = try MovedFile(reading: scene.folder.path + "/a.db").connection
        let free = "SELECT count(*) FROM handler WHERE state = 0 AND lease IS NULL"
        #expect(try file.firstOnce(free) { $0.integer(0) } == 1)
        #expect(try file.firstOnce("SELECT count(*) FROM connected_slot") { $0.integer(0) } == 0)
    }

    private func write(_ bytes: [UInt8], to path: String) throws {
        let file = try #require(fopen(path, "w"))
        defer { fclose(file) }
        #expect(fwrite(bytes, 1, bytes.count, file) == bytes.count)
    }
}

extension [UInt8] {
    init(bytesOf path: String) throws {
        let file = try #require(fopen(path, "r"))
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 64 << 20)
        let count = fread(&bytes, 1, bytes.count, file)
        self = Array(bytes.prefix(count))
    }
}
