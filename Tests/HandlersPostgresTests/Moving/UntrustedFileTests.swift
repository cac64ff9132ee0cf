@testable import Handlers
import TestServers
import TestSupport
import TestThreads
import Testing

@testable import HandlersPostgres

/// Files of SQLite in whose schema somebody has written what SQLite does not write.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct UntrustedFileTests {
    private static let evil = [
        "CREATE TABLE zz(a TEXT); DROP TABLE app.invoices", "DROP TABLE app.invoices",
        "CREATE TABLE zz AS SELECT count(*) AS a FROM app.invoices",
        "CREATE TABLE zz(a) AS SELECT pg_sleep(1)", "CREATE TABLE app.zz(a TEXT)",
        "CREATE TABLE \"app\".\"zz\"(a TEXT)", "CREATE TEMP TABLE zz(a TEXT)",
        "CREATE UNLOGGED TABLE zz(a TEXT)", "CREATE TABLE zz(a TEXT) INHERITS (app.invoices)",
        "CREATE TABLE zz(a TEXT) TABLESPACE pg_default", "CREATE TABLE IF NOT EXISTS zz(a TEXT)",
        "CREATE TABLE zz OF app.kind", "CREATE INDEX zz ON app.invoices(a)",
        "CREATE INDEX zz ON note(text); DROP TABLE app.invoices", "CREATE FUNCTION zz() RETURNS int",
        "/* CREATE TABLE */ DELETE FROM app.invoices", "COPY app.invoices TO PROGRAM 'true'", "",
        "CREATE TABLE zz(a TEXT", "CREATE TABLE zz(a TEXT) -- \n; DROP TABLE app.invoices",
        "CREATE TABLE zz(a INTEGER CHECK (pg_terminate_backend(a)))",
        "CREATE TABLE zz(a INTEGER, CHECK (pg_catalog.pg_terminate_backend /* ( */ (a)))",
        "CREATE TABLE zz(a TEXT DEFAULT (\"pg_read_file\"('/etc/passwd')))",
        "CREATE TABLE zz(a TEXT, b TEXT GENERATED ALWAYS AS (set_config('role', 'x', false)) STORED)",
        "CREATE TABLE zz(a INTEGER CHECK (U&\"pg\\005Fsleep\"(a) IS NULL))",
        "CREATE INDEX zz ON note(evil(text))", "CREATE INDEX zz ON note(text) WHERE app.evil(text)",
    ]

    @Test(
        "G8 a text that is not one CREATE TABLE or CREATE INDEX in the schema of the store is refused",
        arguments: evil)
    func refused(text: String) {
        #expect(!PostgresText.makesTableOrIndex(text))
    }

    @Test(
        "G8 what SQLite writes for tables and indices is taken",
        arguments: [
            "CREATE TABLE zz(a TEXT)",
            "create table \"z\"\"z\" (a TEXT DEFAULT ');', b INTEGER CHECK (b > (1)))",
            "CREATE TABLE zz(a TEXT PRIMARY KEY) WITHOUT ROWID", "CREATE TABLE zz(a TEXT) -- of others; ours",
            "CREATE TABLE zz(\n    a TEXT /* ; */)\n",
            "CREATE INDEX zz_a ON zz(a, lower(b)) WHERE a IS NOT NULL",
            "CREATE UNIQUE INDEX \"i\" ON \"zz\"(a)",
            "CREATE TABLE zz(a VARCHAR(10) REFERENCES \"b\"(id), CONSTRAINT c CHECK (length(a) IN (1, 2) AND (a > '')), PRIMARY KEY (a))",
            "CREATE TABLE zz(a TEXT DEFAULT (lower(hex(randomblob(16)))), FOREIGN KEY (a) REFERENCES b(id))",
        ])
    func taken(text: String) {
        #expect(PostgresText.makesTableOrIndex(text))
    }

    @Test("G8 a move runs nothing of a file but what makes a table or an index of it")
    func moved() throws {
        let scene = try MoveScene()
        try MoveScene.fill(scene.file, size: 10)
        try scene.database.query("CREATE SCHEMA app; CREATE TABLE app.invoices(a TEXT)")
        try tamper(scene)
        let error = failure {
            try StoreMove(
                from: scene.file, to: scene.server, schemas: MoveScene.schemas, durability: .onPrimary,
                takesUnknown: true
            ).run()
        }
        #expect(error?.code == .databaseForeign)
        #expect(error?.message.contains("is not made by one CREATE TABLE") == true, "\(error as Any)")
        #expect(try scene.database.query("SELECT to_regclass('app.invoices') IS NOT NULL") == "t")
        #expect(try scene.database.query("SELECT to_regclass('module_schema') IS NULL") == "t")
    }

    /// Has the schema of a file make something else.
    private func tamper(_ scene: MoveScene) throws {
        let store = try MoveScene.open(scene.file)
        try store.change("CREATE TABLE zz(a TEXT)")
        try store.change("PRAGMA writable_schema = ON")
        try store.change(
            "UPDATE sqlite_schema SET sql = 'CREATE TABLE zz(a TEXT); DROP TABLE app.invoices' WHERE name = 'zz'"
        )
        try store.change("PRAGMA writable_schema = RESET")
        #expect(
            try store.texts("SELECT sql FROM sqlite_schema WHERE name = 'zz'").first?.contains("DROP") == true
        )
    }
}
