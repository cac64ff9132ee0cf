import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import Testing
import XMPPCore
import TestServers

extension RealServerTests {
    /// The bot of docs/guide/bot.md, as its readers start it.
    @Suite struct SampleBotTests {
        private func start(_ home: RealHome) throws -> ChildProcess {
            try ChildProcess(
                BuiltProduct.path("EchoBot"),
                environment: .inheriting([
                    "ECHO_JID": home.jid.description, "ECHO_PASSWORD": RealServers.password,
                    "ECHO_PORT": String(home.port(.startTLS)),
                    "SSL_CERT_FILE": home.scene.certificates.authorityFile,
                ]), folder: home.folder.path, output: .inherited)
        }

        private func startNotebook(_ home: RealHome) throws -> ChildProcess {
            try ChildProcess(
                BuiltProduct.path("Notebook"),
                environment: .inheriting([
                    "NOTEBOOK_JID": home.jid.description, "NOTEBOOK_PASSWORD": RealServers.password,
                    "NOTEBOOK_PORT": String(home.port(.startTLS)),
                    "SSL_CERT_FILE": home.scene.certificates.authorityFile,
                ]), folder: home.folder.path, output: .inherited)
        }

        @Test(
            "X28 the notebook of the samples keeps what its authors want, corrected or gone, and nobody else")
        func notebook() async throws {
            try await withModulesHome(.prosody) { home in
                let author = try home.scene.peer(PackageResources.values_peer_py, resource: "values")
                let stranger = try home.scene.peer(PackageResources.values_peer_py, resource: "values")
                let notebook = try startNotebook(home)
                defer { [author, stranger].forEach { $0.close() } }
                defer { notebook.killAndWait() }
                let to = home.jid.description
                func note(_ peer: SlixmppPeer, _ id: String, markable: Bool = false) async throws {
                    try peer.tell(
                        "send", ["to": to, "id": id, "body": "body of \(id)", "markable": markable])
                    try await eventually("the reaction to \(id)") {
                        try peer.bodies("value").contains { $0.contains("\"reactions\": [\"\(id)\", \"📝\"]") }
                    }
                }
                try await note(author, "n1", markable: true)
                #expect(try author.bodies("value").last?.contains("\"displayed\": \"n1\"") == true)
                try await note(author, "n2")
                for id in ["n1", "n2"] {
                    try stranger.tell("correct", ["to": to, "id": id, "body": "forged"])
                }
                try stranger.tell("retract", ["to": to, "id": "n1"])
                try await note(stranger, "s1")
                for body in ["airlock", "window"] {
                    try author.tell("correct", ["to": to, "id": "n1", "body": body])
                }
                try author.tell("retract", ["to": to, "id": "n2"])
                try await note(author, "n3")
                notebook.killAndWait()
                let store = try HandlerStore(
                    path: home.folder.path + "/notebook.db", registry: HandlerRegistry([]), schemas: [])
                #expect(
                    try store.texts("SELECT text FROM note ORDER BY id") == [
                        "window", "body of n3", "body of s1",
                    ])
            }
        }

        private func emptyStore(_ home: RealHome) throws {
            let files = FileManager.default
            let names = try files.contentsOfDirectory(atPath: home.folder.path).filter {
                $0.hasPrefix("echo.db")
            }
            try #require(names.contains("echo.db"))
            for name in names { try files.removeItem(atPath: home.folder.path + "/" + name) }
        }

        @Test(
            "X29 a bot that starts with an empty store answers nothing old, and never what its own account sends",
            arguments: ServerKind.allCases)
        func emptied(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let friend = try home.messenger()
                let other = try home.messenger(ofThisAccount: true)
                defer {
                    friend.close()
                    other.close()
                }
                try other.tell("carbons")
                func send(_ body: String) throws {
                    try friend.tell(
                        "send", ["to": home.jid.description, "body": body, "id": "\(body) \(UUID())"])
                }
                // The account's other client gets what is sent before the bot is there.
                func awaitBot() async throws {
                    let before = try friend.bodies("message").count
                    try await eventually("the bot") {
                        try send("ping")
                        return try friend.bodies("message").count > before
                    }
                }
                func converse(_ bodies: [String]) async throws {
                    for body in bodies {
                        try send(body)
                        try await eventually("the echo") { try friend.bodies("message").contains(body) }
                    }
                }
                var bot = try start(home)
                defer { bot.killAndWait() }
                try await awaitBot()
                try await converse(["one", "two"])
                try other.tell("send", ["to": try friend.jid, "body": "from the account", "id": "o1"])
                try await eventually("it") { try friend.bodies("message").contains("from the account") }
                // To the account itself: the bot gets it as well.
                try other.tell("send", ["to": home.jid.description, "body": "note to self", "id": "o2"])
                try await converse(["three"])
                for round in 0..<2 {
                    bot.killAndWait()
                    try emptyStore(home)
                    bot = try start(home)
                    try await awaitBot()
                    // What it may answer of old comes before the second of these.
                    try await converse(["\(round) four", "\(round) five"])
                }
                let answers = try friend.bodies("message").filter { $0 != "ping" }
                #expect(
                    answers == [
                        "one", "two", "from the account", "three", "0 four", "0 five", "1 four", "1 five",
                    ])
                #expect(try other.bodies("message").filter { $0 == "note to self" }.count <= 1)
            }
        }

        @Test(
            "X29 SIGTERM and SIGINT end the bot of the samples with 0: its account is free, its session waits to be resumed",
            arguments: [SIGTERM, SIGINT])
        func ended(signal: Int32) async throws {
            try await withModulesHome(.prosody) { home in
                let friend = try home.messenger()
                defer { friend.close() }
                let bot = try start(home)
                defer { bot.killAndWait() }
                try await eventually("the bot") {
                    try friend.tell("send", ["to": home.jid.description, "body": "ping", "id": "\(UUID())"])
                    return try friend.bodies("message").contains("ping")
                }
                #expect(bot.signal(signal))
                #expect(try bot.waitUntilExit(deadline: .now + .seconds(30)).cause == .exited(0))
                let store = try HandlerStore(
                    path: home.folder.path + "/echo.db", registry: HandlerRegistry([]), schemas: [])
                #expect(try store.number("SELECT count(*) FROM ownership WHERE owner IS NULL") == 1)
                #expect(
                    try store.number("SELECT count(*) FROM session WHERE open_number IS NULL AND resumable")
                        == 1)
            }
        }

        @Test("X29 SIGTERM ends the bot of the samples with 0 while it waits for its server, too")
        func endedWithoutServer() async throws {
            let folder = try TemporaryFolder()
            let bot = try ChildProcess(
                BuiltProduct.path("EchoBot"),
                environment: .inheriting([
                    "ECHO_JID": "echo@localhost", "ECHO_PASSWORD": "secret", "ECHO_PORT": "1",
                ]), folder: folder.path, output: .inherited)
            defer { bot.killAndWait() }
            try await eventually("an attempt") {
                let path = folder.path + "/echo.db"
                guard FileManager.default.fileExists(atPath: path) else { return false }
                let store = try HandlerStore(path: path, registry: HandlerRegistry([]), schemas: [])
                return (try? store.number("SELECT count(*) FROM ownership WHERE owner IS NOT NULL")) == 1
            }
            #expect(bot.signal(SIGTERM))
            #expect(try bot.waitUntilExit(deadline: .now + .seconds(30)).cause == .exited(0))
        }
    }
}
