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

        @Test(
            "X38 profanity and the encrypting bot: the answer comes, also after a kill, and to a device that is installed again"
        )
        func bot() async throws {
            try await withScene(.prosody) { scene in
                // Without a list profanity 0.13.1 publishes none.
                try await scene.publishList(.legacy, [])
                let bot = EchoBot(scene)
                defer { bot.stop() }
                try await bot.start()
                let profanity = try peer(scene)
                defer { profanity.stop() }
                func echoes(_ text: String) async throws {
                    try await profanity.type("/msg \(scene.ours) \(text)")
                    try await eventually("the echo of \(text)") {
                        profanity.conversation(with: scene.ours).contains {
                            $0.hasSuffix(": \(text)") && !$0.hasPrefix("me")
                        }
                    }
                }
                func begin() async throws {
                    try await profanity.start()
                    try await profanity.type("/omemo gen")
                    try await eventually("profanity's keys are published") { profanity.count("bundles:") > 0 }
                    try await profanity.type("/omemo start \(scene.ours)")
                }
                try await begin()
                try await echoes("one")
                bot.stop()
                try await profanity.type("/msg \(scene.ours) two")
                try await bot.start()
                try await eventually("the echo of two") {
                    profanity.conversation(with: scene.ours).contains {
                        $0.hasSuffix(": two") && !$0.hasPrefix("me")
                    }
                }
                try await eventually("profanity is asked for receipts, and confirms") {
                    profanity.stanzas(.sent, with: "<received", Namespaces.receipts) > 1
                }
                profanity.stop()
                try profanity.forgetDevice()
                try await begin()
                try await echoes("three")
            }
        }

        @Test("X38 X35 profanity reads our first message, confirms it, and takes its correction for one")
        func first() async throws {
            try await withScene(.prosody) { scene in
                try await scene.publishList(.legacy, [])
                let profanity = try peer(scene)
                defer { profanity.stop() }
                try await profanity.start()
                try await profanity.type("/omemo gen")
                try await eventually("profanity's keys are published") {
                    profanity.count("axolotl.devicelist\"><item") > 0
                }
                let ours = try await scene.device()
                let jid = try JID(scene.theirs)
                let id = try await ours.account.perform { step in
                    try ours.account.omemo.send(OmemoContent(body: "But soft"), to: jid, in: step)
                }
                func delivered(_ id: String) async throws {
                    try await eventually("profanity confirms") {
                        try ours.store.read {
                            try ours.account.chat.delivery(of: id, in: $0)?.deliveredAt != nil
                        }
                    }
                }
                try await delivered(id)
                #expect(profanity.conversation(with: scene.ours).last?.hasSuffix(": But soft") == true)
                let correction = try await ours.account.perform { step in
                    try ours.account.omemo.send(
                        OmemoContent(
                            body: "But soft, what light", elements: [MessageCorrection(of: id).element]),
                        to: jid, in: step)
                }
                try await delivered(correction)
                try await eventually("profanity shows the correction") {
                    profanity.conversation(with: scene.ours).contains { $0.contains("But soft, what light") }
                }
                #expect(profanity.stanzas(.received, with: "<replace", "<encrypted") == 1)
                await ours.account.close()
            }
        }
    }
}
