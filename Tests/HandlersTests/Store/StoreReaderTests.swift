import Foundation
import Handlers
import TestThreads
import TestSupport
import Testing

/// Looking into a store without having a part in it.
@Suite(.ownThread, .timeLimit(.minutes(3)))
struct StoreReaderTests {
    private let folder: URL
    private var path: String { folder.path + "/store.db" }

    struct Waiting: Handler {
        static let id = "reader-test.waiting"
        var token: Secret<String>
        func run(_ call: borrowing Call<TimerFired>) throws {}
    }

    static let notes = Schema(module: "notes", migrations: ["CREATE TABLE note(text TEXT NOT NULL)"])

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "reader-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    private func makeStore(_ name: String = "store.db") throws -> HandlerStore {
        try HandlerStore(
            path: folder.path + "/" + name, registry: HandlerRegistry([Waiting.self]), schemas: [Self.notes],
            synchronous: .normal)
    }

    private func files() throws -> [String: Data] {
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
        return try Dictionary(
            uniqueKeysWithValues: names.map { name in
                // Reading a pipe would wait for a writer.
                if name.hasSuffix("-signal") { return (name, Data()) }
                return (name, try Data(contentsOf: folder.appending(path: name)))
            })
    }

    private func count(_ path: String) throws -> Int64? {
        try StoreReader(path: path, schemas: [Self.notes]).read { snapshot in
            try snapshot.first("SELECT count(*) FROM note") { (row) throws(HandlerError) in row.integer(0) }
        }
    }

    private func code(_ path: String, _ schemas: [Schema] = []) -> ErrorCode<HandlerError>? {
        do {
            try StoreReader(path: path, schemas: schemas).read { _ in }
            return nil
        } catch {
            return (error as? HandlerError)?.code
        }
    }

    @Test("W8 a store inside a transaction is read as it was committed last, without waiting")
    func besideATransaction() throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let store = try makeStore()
        try store.step { try $0.execute("INSERT INTO note VALUES ('one')") }
        try store.step { step in
            try step.execute("INSERT INTO note VALUES ('two')")
            #expect(try count(path) == 1)
        }
        #expect(try count(path) == 2)
    }

    @Test("W8 what is committed during a look is not seen in it")
    func oneMoment() throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let store = try makeStore()
        try StoreReader(path: path).read { snapshot in
            try store.step { try $0.execute("INSERT INTO note VALUES ('later')") }
            let seen = try snapshot.first("SELECT count(*) FROM note") {
                (row) throws(HandlerError) in row.integer(0)
            }
            #expect(seen == 0)
        }
        #expect(try count(path) == 1)
    }

    @Test("W8 looking at a file that nobody has open changes nothing and leaves nothing")
    func atRest() throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let name = "a?b#c%20d.db"
        do {
            let store = try makeStore(name)
            try store.step { try $0.execute("INSERT INTO note VALUES ('one')") }
        }
        let before = try files()
        #expect(before[name + "-wal"] == nil, "the last one who closes a database removes its log")
        #expect(try count(folder.path + "/" + name) == 1)
        #expect(try files() == before)
    }

    @Test("W8 what a killed process left in its log is seen, and left there")
    func leftLog() throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let store = try makeStore()
        try store.step { try $0.execute("INSERT INTO note VALUES ('in the log only')") }
        // A copy of both files is what a kill leaves: nobody closed them.
        let copy = folder.path + "/copy.db"
        for end in ["", "-wal"] { try FileManager.default.copyItem(atPath: path + end, toPath: copy + end) }
        let before = try [copy, copy + "-wal"].map { try Data(contentsOf: URL(filePath: $0)) }
        #expect(try count(copy) == 1)
        #expect(try [copy, copy + "-wal"].map { try Data(contentsOf: URL(filePath: $0)) } == before)
        withExtendedLifetime(store) {}
    }

    @Test("W8 a reader cannot write")
    func readsOnly() throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let store = try makeStore()
        #expect(throws: HandlerError.self) {
            try StoreReader(path: path).read { snapshot in
                _ = try snapshot.all("DELETE FROM note RETURNING text") {
                    (row) throws(HandlerError) in row.text(0)
                }
            }
        }
        withExtendedLifetime(store) {}
    }

    @Test("W8 what is no store is refused with its own error, and is not made one")
    func refused() throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        #expect(code(path) == .databaseUnavailable)
        #expect(code(folder.path) == .databaseUnavailable)
        let empty = folder.path + "/empty"
        let text = folder.path + "/text"
        try Data().write(to: URL(filePath: empty))
        try Data(repeating: 65, count: 5000).write(to: URL(filePath: text))
        #expect(code(empty) == .databaseForeign)
        #expect(code(text) == .databaseCorrupt)
        #expect(try files().keys.sorted() == ["empty", "text"])
    }

    @Test("W8 a store whose tables are newer or older than the program knows is refused")
    func otherVersions() throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let store = try makeStore()
        let older = Schema(module: "notes", migrations: [])
        let newer = Schema(module: "notes", migrations: Self.notes.migrations + ["SELECT 1"])
        #expect(code(path, [older]) == .databaseNewer)
        #expect(code(path, [newer]) == .databaseOlder)
        // Nobody needs all modules.
        #expect(code(path, [Schema(module: "others", migrations: ["SELECT 1"])]) == nil)
        withExtendedLifetime(store) {}
    }

    @Test("W8 a reader shows handlers without secrets, and the processes that have the store open")
    func handlers() throws {
        defer { try? FileManager.default.removeItem(at: folder) }
        let reader = StoreReader(path: path)
        do {
            let store = try makeStore()
            let id = try store.step { try $0.bind(Waiting(token: Secret("hush")).durable) }
            let status = try reader.read { try $0.status(of: id) }
            #expect(status?.arguments == #"{"token":"<secret>"}"#)
            #expect(try reader.read { try reader.processes(in: $0) }.map(\.processID) == [getpid()])
            withExtendedLifetime(store) {}
        }
        #expect(try reader.read { try reader.processes(in: $0) }.isEmpty)
    }
}
