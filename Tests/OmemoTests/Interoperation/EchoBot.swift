import Foundation
import Handlers
import TestServers
import TestSupport
import Testing

/// The bot's process, one after the other, and its store.
final class EchoBot {
    private let scene: Interoperation
    private let store: String
    private var process: ChildProcess?

    init(_ scene: Interoperation) {
        self.scene = scene
        store = scene.folder.path + "/secret-echo.db"
    }

    /// Starts it, and waits until it can be written to.
    func start() async throws {
        let before = (try? streams) ?? 0
        process = try ChildProcess(
            BuiltProduct.path("EncryptedEcho"),
            environment: .inheriting([
                "ECHO_JID": scene.ours, "ECHO_PASSWORD": RealServers.password,
                "ECHO_PORT": String(scene.server.startTLSPort), "SSL_CERT_FILE": scene.authority,
            ]), folder: scene.folder.path, output: .inherited)
        try await eventually("the bot has a stream") { (try? self.streams).map { $0 > before } ?? false }
        try await eventually("its keys are published") {
            try self.number("SELECT count(*) FROM omemo_publication WHERE listed = 1") == 2
        }
        try await quiet()
    }

    func stop() { process?.killAndWait() }

    /// Once the server has everything that it sent, and nothing is owed.
    func quiet() async throws {
        try await eventually("nothing is left to be sent") {
            try self.number(
                """
                SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM omemo_waiting)
                    + (SELECT count(*) FROM archive WHERE state IN (1, 2))
                    + (SELECT count(*) FROM omemo_duty WHERE done_at IS NULL)
                """) == 0
        }
    }

    /// How many streams its account had.
    private var streams: Int64 {
        get throws { try number("SELECT sum(resumed_count + bound_count) FROM session") }
    }

    private func number(_ sql: String) throws -> Int64 {
        try StoreReader(path: store).read { snapshot in
            try #require(snapshot.first(sql) { (row) throws(HandlerError) in row.integer(0) })
        }
    }

    /// Copies the database while no process has it open (docs/reference/backups.md).
    func backUp() throws { try replace("\(store)-backup", by: store) }

    func putBack() throws { try replace(store, by: "\(store)-backup") }

    private func replace(_ target: String, by source: String) throws {
        let files = FileManager.default
        for suffix in ["", "-wal", "-shm"] where files.fileExists(atPath: target + suffix) {
            try files.removeItem(atPath: target + suffix)
        }
        for suffix in ["", "-wal"] where files.fileExists(atPath: source + suffix) {
            try files.copyItem(atPath: source + suffix, toPath: target + suffix)
        }
    }
}
