import Handlers
import Platform
import TestServers
import TestSupport
import Testing

@testable import HandlersPostgres

/// Adds a note, and fails if it is told to.
struct Note: Handler {
    static let id = "test.note"
    static let retry = RetryPolicy.never

    var text: String
    var fails = false

    func run(_ call: borrowing Call<Int>) throws {
        try call.step.write("INSERT INTO note(text) VALUES (?)", text)
        if fails { throw Refusal() }
    }
}

/// Adds a note when its time comes.
struct Remark: Handler {
    static let id = "test.remark"

    var text: String

    func run(_ call: borrowing Call<TimerFired>) throws {
        try call.step.write("INSERT INTO note(text) VALUES (?)", text)
    }
}

struct Refusal: Error {}

let notes = Schema(
    module: "notes",
    migrations: [
        """
        CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT NOT NULL);
        CREATE TABLE balance(id INTEGER PRIMARY KEY, total INTEGER NOT NULL);
        INSERT INTO balance VALUES (1, 0);
        """
    ])

/// Opens a store in a database of the shared server.
func openStore(
    _ database: TestDatabase, schemas: [Schema] = [notes], durability: PostgresDurability? = .onPrimary
) throws -> HandlerStore {
    try openStore(PostgresSettings(database.connection(), durability: durability), schemas: schemas)
}

func openStore(_ settings: PostgresSettings, schemas: [Schema] = [notes]) throws -> HandlerStore {
    try HandlerStore(
        settings, registry: HandlerRegistry([Note.self, Remark.self]), schemas: schemas, role: .main,
        time: .system,
        log: nil)
}

/// Lends a store in a new database.
func withStore(_ body: (HandlerStore, TestDatabase) throws -> Void) throws {
    let database = try PostgresServer.shared.makeDatabase()
    try body(try openStore(database), database)
}

/// Lends a store on a server of its own, which the test may kill.
func withOwnServer(_ body: (PostgresServer, HandlerStore) throws -> Void) throws {
    let server = try PostgresServer()
    try server.start()
    defer { server.close() }
    let database = try server.makeDatabase()
    try body(server, try openStore(database))
    withExtendedLifetime(database) {}
}

/// Runs `body` on a thread while a server is away, and starts the server again.
func whileAway(_ server: PostgresServer, _ body: @escaping @Sendable () -> Void) throws {
    server.kill()
    let waiting = try SystemThread("waiting", body)
    // It has found the server away by now, or finds it back: both must succeed.
    SystemThread.sleep(microseconds: 300_000)
    try server.start()
    waiting.join()
}

extension HandlerStore {
    func texts() throws -> [String] {
        try read { snapshot in try snapshot.all("SELECT text FROM note ORDER BY id") { $0.text(0) } }
    }
}

/// The code with which `body` fails; nil when it does not.
func code(_ body: () throws -> Void) -> ErrorCode<HandlerError>? {
    do {
        try body()
        return nil
    } catch { return (error as? HandlerError)?.code }
}

/// Waits until a node has named the connection by whose end others notice its death at once.
func expectConnection(of node: Int, _ database: TestDatabase) throws {
    let isNamed = try becomesTrue(before: .now + .seconds(40)) {
        try database.query(
            """
            SELECT count(*) FROM pg_stat_activity JOIN node_lease ON pid = backend
            WHERE node = \(node) AND server_start = \(NodeTable.server)
                AND node_lease.backend_start = extract(epoch FROM pg_stat_activity.backend_start) * 1000000
            """) == "1"
    }
    try #require(isNamed)
}
