import Foundation
import Handlers
import TestSupport
import Testing
import TestServers

extension OmemoOnServersTests {
    /// The bot with encryption of docs/reference/omemo.md, as its readers start it.
    @Suite struct EncryptedEchoTests {
        @Test(
            "X29 an encrypting bot whose store was put back answers nothing old, and the message after the one that it cannot read",
            arguments: ServerKind.allCases, [Interoperation.Spoken.legacy, .omemo2])
        func putBack(_ kind: ServerKind, _ spoken: Interoperation.Spoken) async throws {
            try await withScene(kind) { scene in
                let bot = Bot(scene)
                defer { bot.stop() }
                try await bot.start()
                let peer = try scene.peer(spoken)
                func converse(_ prefix: String) async throws {
                    try peer.sendMessages(to: scene.ours, count: 1, prefix: prefix)
                    try await eventually("the answer to \(prefix)") {
                        try peer.received.contains("\(prefix)-1")
                    }
                    try await bot.quiet()
                }
                try await converse("a")
                try await eventually("the session that the peer began is answered") { try peer.empty == 1 }
                bot.stop()
                try bot.backUp()
                try await bot.start()
                try await converse("b")
                bot.stop()
                try bot.putBack()
                try await bot.start()
                // Its key came into being with the answer that the backup knows nothing of.
                try peer.sendMessages(to: scene.ours, count: 1, prefix: "c")
                try await eventually("the session is repaired") {
                    try peer.empty == 2 || peer.received.count > 2
                }
                try await converse("d")
                // What it may say to old messages comes before the second of these.
                try await converse("e")
                let received = try peer.received
                #expect(received == ["a-1", "b-1", "d-1", "e-1"])
                #expect(try (peer.copies, peer.empty) == (0, 2))
                try peer.expectReadAll()
            }
        }
    }

    /// The bot's process, one after the other, and its store.
    private final class Bot {
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
}
