import Handlers
import TestServers
import TestSupport
import Testing

@testable import HandlersPostgres

/// Tables with values of all kinds, with and without keys, that name each other.
let kinds = Schema(
    module: "kinds",
    migrations: [
        """
        CREATE TABLE kind(id INTEGER PRIMARY KEY AUTOINCREMENT, i INTEGER, r REAL, t TEXT, b BLOB);
        CREATE TABLE loose(t TEXT, r REAL);
        CREATE TABLE person(id INTEGER PRIMARY KEY, chief INTEGER REFERENCES person(id), name TEXT NOT NULL);
        CREATE TABLE alias(person INTEGER NOT NULL REFERENCES person(id), name TEXT NOT NULL, PRIMARY KEY(name, person)) WITHOUT ROWID;
        INSERT INTO loose VALUES ('made by the migration', 0.5);
        """,
        """
        ALTER TABLE kind ADD COLUMN added INTEGER NOT NULL DEFAULT 7;
        """,
    ])

/// Two places for a store, and stores in them.
final class MoveScene {
    static let schemas = [notes, kinds]

    let folder: TemporaryFolder
    let database: TestDatabase

    init() throws {
        folder = try TemporaryFolder()
        database = try PostgresServer.shared.makeDatabase()
    }

    var file: StoreMove.Place { .file(folder.path + "/a.db") }
    var server: StoreMove.Place { .postgres(database.connection()) }

    static func open(_ place: StoreMove.Place, schemas: [Schema] = MoveScene.schemas) throws -> HandlerStore {
        switch place {
        case .file(let path):
            try HandlerStore(path: path, registry: HandlerRegistry([Note.self]), schemas: schemas)
        case .postgres(let settings):
            try openStore(PostgresSettings(settings, durability: .onPrimary), schemas: schemas)
        }
    }

    static func move(
        _ source: StoreMove.Place, _ target: StoreMove.Place, schemas: [Schema] = MoveScene.schemas
    ) -> StoreMove {
        StoreMove(from: source, to: target, schemas: schemas, durability: .onPrimary)
    }

    /// Fills a store, also with what was deleted since.
    static func fill(_ place: StoreMove.Place, size: Int = 1000) throws {
        let store = try open(place)
        try store.step { step in
            let values: [(Int64?, Double?, String?, [UInt8]?)] = [
                (.min, -.infinity, "", []), (.max, .infinity, "Å ∆ 🌍 'quoted' \"too\"\n", [0, 255, 0]),
                (0, 0.1, String(repeating: "long ", count: size), [UInt8](repeating: 7, count: size)),
                (-1, .leastNonzeroMagnitude, "B", nil), (nil, .greatestFiniteMagnitude, "a", nil),
                (nil, 3, nil, nil), (nil, nil, nil, nil),
            ]
            for (i, r, t, b) in values {
                try step.execute("INSERT INTO kind(i, r, t, b) VALUES (?, ?, ?, ?)", i, r, t, b)
            }
            try step.execute("DELETE FROM kind WHERE t IS NULL")
            for _ in 0..<2 { try step.execute("INSERT INTO loose VALUES ('twice', 1.5)") }
            try step.execute("INSERT INTO loose VALUES (NULL, NULL)")
            // The first names one that comes later in the order of keys.
            try step.execute("INSERT INTO person(id, chief, name) VALUES (9, NULL, 'Ada')")
            try step.execute("INSERT INTO person(id, chief, name) VALUES (1, 9, 'Bea')")
            for name in ["a", "B", "ä", "Z", "z", "é", "_", "10", "9"] {
                try step.execute("INSERT INTO alias(person, name) VALUES (1, ?)", name)
            }
            for number in 0..<300 { try step.execute("INSERT INTO note(text) VALUES (?)", "note \(number)") }
        }
        let last = try store.step { try $0.bind(Note(text: "bound").durable) }
        // The highest id that was given; its row is gone.
        let gone = try store.step { try $0.bind(Note(text: "ended").durable) }
        try store.step { try $0.end(gone, .result, with: 1) }
        #expect(last.rawValue < gone.rawValue)
    }

    /// Every value of every table with its type, the rows of a table in no order.
    static func contents(_ store: HandlerStore) throws -> [String: [[SQLValue?]: Int]] {
        let columns = [
            "kind": 6, "loose": 2, "person": 3, "alias": 2, "note": 2, "balance": 2, "handler": 23,
            "ending": 6,
            "identity": 2,
        ]
        var contents: [String: [[SQLValue?]: Int]] = [:]
        for (table, count) in columns {
            let rows = try store.read { snapshot in
                try snapshot.all("SELECT * FROM \(table)") { row in (0..<count).map { row.value($0) } }
            }
            contents[table] = Dictionary(rows.map { ($0, 1) }, uniquingKeysWith: +)
        }
        return contents
    }
}

/// The error of `body`.
func failure(_ body: () throws -> Void) -> HandlerError? {
    do {
        try body()
        return nil
    } catch { return error as? HandlerError }
}
