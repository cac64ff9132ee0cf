import Handlers
import Platform
import Synchronization
import TestServers
import TestSupport
import TestThreads
import Testing

@testable import HandlersPostgres

/// Reads whose statements or connections are gone, and other messages of a server.
@Suite(.ownThread, .timeLimit(.minutes(3))) struct ReadAgainTests {
    /// The servers that word their messages in English and in another language.
    private static let languages: [String?] = hasGerman ? [nil, "de"] : [nil]
    private static let hasGerman = (14...20).contains {
        FileSystem.isMissing("/usr/share/locale/de/LC_MESSAGES/postgres-\($0).mo") == false
    }

    private static func inLanguage(
        _ language: String?, _ body: (HandlerStore, TestDatabase) throws -> Void
    ) throws {
        guard let language else { return try withStore(body) }
        var options = PostgresOptions()
        options.language = language
        let server = try PostgresServer(options: options)
        try server.start()
        defer { server.close() }
        let database = try server.makeDatabase()
        let store = try openStore(database)
        let error = failure { try store.step { _ = try $0.execute("SELECT missing") } }
        try #require(error?.message.contains("existiert nicht") == true, "\(error as Any)")
        try body(store, database)
    }

    @Test(
        "G4 a read prepares its statements again after another program has changed a table, in every language",
        arguments: languages)
    func changedTables(language: String?) throws {
        try Self.inLanguage(language) { store, database in
            try store.step { try $0.write("INSERT INTO note(text) VALUES ('a')") }
            let columns = { try store.read { try $0.all("SELECT * FROM note") { $0.text(1) } } }
            for number in 0..<3 {
                #expect(try columns() == ["a"])
                #expect(try store.step { try $0.all("SELECT * FROM note") { $0.text(1) } } == ["a"])
                try database.query("ALTER TABLE note ADD COLUMN extra\(number) BIGINT")
            }
            #expect(try columns() == ["a"])
        }
    }

    @Test("G4 a read whose statement the server cannot run at all fails, and the next one succeeds")
    func unsupported() throws {
        try withStore { store, database in
            try database.query(
                """
                CREATE FUNCTION cannot() RETURNS bigint LANGUAGE plpgsql AS
                    $$ BEGIN RAISE EXCEPTION 'not here' USING ERRCODE = '0A000'; END $$
                """)
            let runs = Atomic<Int>(0)
            #expect(
                code {
                    try store.read { snapshot in
                        runs.add(1, ordering: .relaxed)
                        _ = try snapshot.first("SELECT cannot()") { $0.integer(0) }
                    }
                } == .sql)
            #expect(runs.load(ordering: .relaxed) == 2)
            #expect(try store.texts().isEmpty)
        }
    }

    private static let readers =
        "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND query NOT LIKE '%node%' AND application_name = 'durable-handlers'"

    private static let endingReads =
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE query LIKE '%text FROM note%' AND pid <> pg_backend_pid()"

    @Test("G4 a read on a connection that the server has closed, before it or within it, connects again")
    func closed() throws {
        try withStore { store, database in
            try store.step { try $0.write("INSERT INTO note(text) VALUES ('a')") }
            for _ in 0..<4 {
                #expect(try store.texts() == ["a"])
                try database.query("SELECT pg_terminate_backend(pid, 5000) \(Self.readers)")
            }
            let runs = Atomic<Int>(0)
            let texts = try store.read { snapshot in
                let found = try snapshot.all("SELECT text FROM note") { $0.text(0) }
                if runs.add(1, ordering: .relaxed).newValue == 1 { try database.query(Self.endingReads) }
                return found + (try snapshot.all("SELECT text FROM note") { $0.text(0) })
            }
            #expect(texts == ["a", "a"] && runs.load(ordering: .relaxed) == 2)
        }
    }

    @Test(
        "G6 a read waits for a server that is away, as a step does, also the first one",
        arguments: [false, true])
    func outage(isFirst: Bool) throws {
        try withOwnServer { server, store in
            try store.step { try $0.write("INSERT INTO note(text) VALUES ('a')") }
            if !isFirst {
                let texts = try store.texts()
                #expect(texts == ["a"])
            }
            let found = Mutex<[String]?>(nil)
            try whileAway(server) {
                let texts = try? store.texts()
                found.withLock { $0 = texts }
            }
            #expect(found.withLock { $0 } == ["a"])
        }
    }

    @Test("G4 a read that has started a step does not run again: the step would be done twice")
    func startsStep() throws {
        try withStore { store, database in
            let runs = Atomic<Int>(0)
            let lost = code {
                try store.read { snapshot in
                    runs.add(1, ordering: .relaxed)
                    _ = try snapshot.all("SELECT text FROM note") { $0.text(0) }
                    try store.step { try $0.write("INSERT INTO note(text) VALUES ('a')") }
                    try database.query(Self.endingReads)
                    _ = try snapshot.all("SELECT text FROM note") { $0.text(0) }
                }
            }
            #expect(lost == .databaseUnavailable && runs.load(ordering: .relaxed) == 1)
            let texts = try store.texts()
            #expect(texts == ["a"])
        }
    }

    // MARK: Warnings

    @Test(
        "G4 a warning of a trigger is none about the standby: the step is stored on the connection that it has",
        arguments: ["01000", "57P01"])
    func warnings(state: String) throws {
        try withStore { store, database in
            try database.query(
                """
                CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN RAISE WARNING 'take care' USING ERRCODE = '\(state)'; RETURN NULL; END $$;
                CREATE CONSTRAINT TRIGGER warn AFTER INSERT ON note DEFERRABLE INITIALLY DEFERRED
                    FOR EACH ROW EXECUTE FUNCTION warn()
                """)
            let processes = try (0..<3).map { number in
                try store.step { step in
                    try step.write("INSERT INTO note(text) VALUES ('\(number)')")
                    return try step.first("SELECT pg_backend_pid()") { $0.integer(0) }
                }
            }
            #expect(Set(processes).count == 1)
            #expect(try store.texts() == ["0", "1", "2"])
        }
    }
}
