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
                let bot = EchoBot(scene)
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
}
