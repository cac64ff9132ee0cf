import Handlers
import TestThreads
import TestSupport
import Testing

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct MigrationTests {
    private let scripts = [
        "CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT NOT NULL); INSERT INTO note(text) VALUES ('one')",
        "ALTER TABLE note ADD COLUMN extra TEXT; INSERT INTO note(text) VALUES ('two')",
        "INSERT INTO note(text) VALUES ('three')",
    ]

    private func schema(_ count: Int) -> [Schema] {
        [Schema(module: "notes", migrations: Array(scripts.prefix(count)))]
    }

    @Test("S7 a new database gets every version in turn, an older one only what it lacks", arguments: 0...3)
    func migrates(from old: Int) throws {
        try withFolder { folder in
            _ = try openStore(folder.file(), schemas: schema(old))
            let store = try openStore(folder.file(), schemas: schema(3))
            #expect(try store.notes() == ["one", "two", "three"])
            #expect(try store.integer("SELECT version FROM module_schema WHERE module = 'notes'") == 3)
        }
    }

    @Test("S7 a module may be added to a database, and one that is not asked for is left alone", .sqliteOnly)
    func modules() throws {
        try withFolder { folder in
            _ = try openStore(folder.file(), schemas: schema(1))
            let other = Schema(module: "other", migrations: ["CREATE TABLE other(id INTEGER PRIMARY KEY)"])
            let store = try openStore(folder.file(), schemas: [other])
            #expect(
                try store.texts("SELECT module || version FROM module_schema ORDER BY module")
                    == ["handlers8", "notes1", "other1"])
        }
    }

    @Test("S7 a migration that fails changes nothing, not even what came before it")
    func fails() throws {
        try withFolder { folder in
            do {
                let store = try openStore(folder.file(), schemas: schema(1))
                try store.bind(Greet(name: "Juliet").durable)
            }
            let faulty = [Schema(module: "notes", migrations: Array(scripts.prefix(2)) + ["CREATE NONSENSE"])]
            #expect(code { _ = try openStore(folder.file(), schemas: faulty) } == .sql)
            let store = try openStore(folder.file(), schemas: schema(1))
            #expect(try store.notes() == ["one"])
            #expect(try store.waiting().count == 1)
        }
    }

    @Test("S7 two schemas of one module are refused: each would take the other's versions for its own")
    func duplicateModule() throws {
        try withFolder { folder in
            let own = Schema(module: "handlers", migrations: ["CREATE TABLE mine(id INTEGER PRIMARY KEY)"])
            for schemas in [[own], schema(1) + schema(2)] {
                let error = error { _ = try openStore(folder.file(), schemas: schemas) }
                #expect(error?.code == .duplicateSchema)
                #expect(error?.message.contains("'\(schemas[0].module)'") == true)
            }
        }
    }
}
