import Handlers
import TestServers
import TestSupport
import Testing
import XMPPCore
import XMPPModules

@testable import Omemo

extension OmemoOnServersTests {
    /// profanity with the command, with the bot of docs/reference/omemo.md, and with the library.
    @Suite struct ProfanityTests {
        private func peer(_ scene: Interoperation) throws -> ProfanityPeer {
            try ProfanityPeer(
                scene.theirs, password: RealServers.password, port: scene.server.startTLSPort,
                authority: scene.authority, in: scene.folder.path)
        }

        /// A command of ours beside profanity.
        private func pushwake(_ words: [String], _ scene: Interoperation) throws -> ChildProcess {
            let options = [
                "--jid", scene.ours, "--store", scene.folder.path + "/command.db", "--host", "127.0.0.1",
                "--port",
                String(scene.server.startTLSPort), "--ca", scene.authority,
            ]
            return try ChildProcess(
                BuiltProduct.path("pushwake"), words + options,
                environment: .inheriting(["PUSHWAKE_PASSWORD": RealServers.password]), output: .pipe,
                errors: .pipe)
        }

        @Test("X38 profanity and the command: texts, receipts and corrections arrive, both ways")
        func command() async throws {
            try await withScene(.prosody) { scene in
                let listening = try pushwake(["listen"], scene)
                _ = try listening.errors?.readText(until: "listening as", deadline: .now + .seconds(30))
                func shown() throws -> String {
                    try #require(try listening.output?.readLine(deadline: .now + .seconds(30)))
                }
                let profanity = try peer(scene)
                defer { profanity.stop() }
                try await profanity.start()
                try await profanity.type("/msg \(scene.ours) But soft")
                #expect(try shown().hasSuffix("\(scene.theirs): But soft"))
                try await profanity.type("/correct But soft, what light")
                #expect(try shown().hasSuffix("\(scene.theirs) corrects a message: But soft, what light"))
                let sending = try pushwake(["send", scene.theirs, "It is the east", "--receipt"], scene)
                let sent = try sending.waitUntilExit(deadline: .now + .seconds(60))
                #expect(sent.status == 0)
                try await eventually("profanity shows it") {
                    profanity.conversation(with: scene.ours).contains { $0.hasSuffix(": It is the east") }
                }
                // Who was written to gets receipts.
                try await profanity.type("/msg \(scene.ours) Who is there")
                #expect(try shown().hasSuffix(": Who is there"))
                try await eventually("profanity has a receipt") {
                    profanity.stanzas(.received, with: "<received", Namespaces.receipts) > 0
                }
                // It writes that it types only to who has a chat state in the texts (XEP-0085 section 5.1).
                #expect(profanity.stanzas(.received, with: "<active", "It is the east") == 1)
                listening.killAndWait()
            }
        }

        /// The bot, and profanity with a device of its own.
        private func withBot(
            _ body: (EchoBot, ProfanityPeer, _ conversation: () -> [String], _ ours: String) async throws ->
                Void
        ) async throws {
            try await withScene(.prosody) { scene in
                // Without a list profanity 0.13.1 publishes none.
                try await scene.publishList(.legacy, [])
                let bot = EchoBot(scene)
                defer { bot.stop() }
                try await bot.start()
                let profanity = try peer(scene)
                defer { profanity.stop() }
                try await startEncrypting(profanity, with: scene.ours)
                try await body(bot, profanity, { profanity.conversation(with: scene.ours) }, scene.ours)
            }
        }

        /// Starts profanity with a new device, and waits until the server has shown the list with it.
        private func startWithDevice(_ profanity: ProfanityPeer) async throws {
            func listed() -> Int {
                profanity.stanzas(.received, with: "<event", "axolotl.devicelist", "<device id=")
            }
            let before = listed()
            try await profanity.start()
            try await profanity.type("/omemo gen")
            try await eventually("profanity's device is on the list") { listed() > before }
            // It publishes its keys last.
            try await eventually("profanity's keys") {
                profanity.stanzas(.sent, with: "<publish", "axolotl.bundles") > 0
            }
        }

        /// The same, with a session for each device of the contact: a text that is typed before is not sent.
        private func startEncrypting(_ profanity: ProfanityPeer, with contact: String) async throws {
            func sessions() -> Int { profanity.count("create session with \(contact) device") }
            let before = sessions()
            try await startWithDevice(profanity)
            try await profanity.type("/omemo start \(contact)")
            try await eventually("profanity has a session") { sessions() > before }
        }

        @Test(
            "X38 profanity and the encrypting bot: the answer comes, also to what was sent while it was killed"
        )
        func bot() async throws {
            try await withBot { bot, profanity, conversation, ours in
                for text in ["one", "two"] {
                    if text == "two" { bot.stop() }
                    try await profanity.type("/msg \(ours) \(text)")
                    if text == "two" { try await bot.start() }
                    try await eventually("the echo of \(text)") {
                        conversation().contains("\(ours): \(text)")
                    }
                }
                try await eventually("profanity is asked for receipts, and confirms") {
                    profanity.stanzas(.sent, with: "<received", Namespaces.receipts) > 1
                }
            }
        }

        @Test(
            "X38 X34 profanity is installed again, and its new device reads the answer to its first message")
        func installedAgain() async throws {
            try await withBot { _, profanity, conversation, ours in
                try await profanity.type("/msg \(ours) one")
                try await eventually("the echo of one") { conversation().contains("\(ours): one") }
                profanity.stop()
                try profanity.forgetDevice()
                try await startEncrypting(profanity, with: ours)
                try await profanity.type("/msg \(ours) two")
                try await eventually("the echo of two") { conversation().contains("\(ours): two") }
            }
        }
    }
}
