import Foundation
import Handlers
import TestServers
import TestSupport
import Testing
import XMPPCore

extension RealServerTests {
    /// The programs of the guide, as its readers start them.
    @Suite struct SampleProgramTests {
        private func store(_ home: RealHome, _ name: String) throws -> HandlerStore {
            try HandlerStore(
                path: home.folder.path + "/" + name, registry: HandlerRegistry([]), schemas: [])
        }

        @Test("Q1 the sample asks and ends; a later start of it finds the answer and greets")
        func askAndGreet() async throws {
            try await withModulesHome(.prosody) { home in
                let juliet = try home.messenger()
                defer { juliet.close() }
                let variables: [String: String] = [
                    "ASK_PEER": try juliet.jid.description,
                    "ASK_TRUST": home.scene.certificates.authorityFile,
                ]
                try await eventually("the greeting") {
                    #expect(try home.run(sample: "AskAndGreet", prefix: "ASK", variables) == "")
                    return try juliet.bodies("message").contains("Good day, Juliet")
                }
            }
        }

        @Test(
            "W3 the guide's worker leaves a living main program alone, and handles messages after its kill")
        func pushWorker() async throws {
            try await withModulesHome(.prosody) { home in
                let friend = try home.messenger()
                defer { friend.close() }
                func send(_ body: String) throws {
                    try friend.tell("send", ["to": home.jid.description, "body": body, "id": body])
                }
                func bodies() throws -> [String] {
                    try store(home, "inbox.db").texts("SELECT body FROM inbox ORDER BY rowid")
                }
                let main = try home.start(sample: "PushWorker", ["main"], prefix: "INBOX")
                defer { main.killAndWait() }
                try send("one")
                try await eventually("the first message") {
                    let path = home.folder.path + "/inbox.db"
                    return FileManager.default.fileExists(atPath: path) && (try? bodies()) == ["one"]
                }
                #expect(
                    try home.run(sample: "PushWorker", prefix: "INBOX") == "the main program is connected\n")
                main.killAndWait()
                try send("two")
                try await eventually("the second message") {
                    #expect(try home.run(sample: "PushWorker", prefix: "INBOX") == "nothing waits\n")
                    return try bodies() == ["one", "two"]
                }
            }
        }

        @Test("X29 the guide's service answers under its second version's name, and ends with 0 at SIGTERM")
        func production() async throws {
            try await withModulesHome(.prosody) { home in
                let friend = try home.messenger()
                defer { friend.close() }
                let service = try home.start(sample: "Production", prefix: "SERVICE")
                defer { service.killAndWait() }
                try await eventually("the answer") {
                    let id = UUID().uuidString
                    try friend.tell("send", ["to": home.jid.description, "body": "hello", "id": id])
                    return try friend.bodies("message").contains("Good day, customer")
                }
                #expect(service.signal(SIGTERM))
                #expect(try service.waitUntilExit(deadline: .now + .seconds(30)).cause == .exited(0))
            }
        }

        @Test("X24 the guide's module starts, and announces what it understands")
        func attentionModule() async throws {
            try await withModulesHome(.prosody) { home in
                let friend = try home.messenger()
                defer { friend.close() }
                let program = try home.start(sample: "AttentionModule", prefix: "ATTENTION")
                defer { program.killAndWait() }
                let path = home.folder.path + "/attention.db"
                var address: String?
                try await eventually("the session") {
                    guard FileManager.default.fileExists(atPath: path) else { return false }
                    let store = try? store(home, "attention.db")
                    address = try? store?.texts("SELECT full_jid FROM session WHERE full_jid IS NOT NULL")
                        .first
                    return address != nil
                }
                let features = try friend.ask("info", ["jid": address ?? ""], as: [String].self)
                #expect(features.contains("urn:xmpp:attention:0"))
                #expect(program.signal(SIGTERM))
                #expect(try program.waitUntilExit(deadline: .now + .seconds(30)).cause == .exited(0))
            }
        }
    }
}
