import Handlers
import TestSupport
@testable import Omemo
import Testing
import XMPPAccount
import XMPPCore
import TestServers

extension OmemoOnServersTests {
    /// Encrypted messages that come out of the server's archive, written by an independent client.
    @Suite struct OmemoArchiveTests {
        @Test(
            "O5 O9 what was written while a device was away comes out of the archive: decrypted once, in order, page by page",
            arguments: ServerKind.allCases, [Interoperation.Spoken.legacy, .omemo2])
        func archive(_ kind: ServerKind, _ spoken: Interoperation.Spoken) async throws {
            try await withScene(kind) { scene in
                let device = try await scene.device()
                // It stays, so that nothing is put into the store of offline messages.
                let other = try await scene.device("other")
                let peer = try scene.peer(spoken)
                try await device.send("one", to: scene.theirs)
                try await eventually("the peer reads it") { try peer.received == ["one"] }
                try peer.sendMessages(to: scene.ours, count: 2, prefix: "live")
                #expect(try await device.heard(2) == numbered("live", 2).blind)
                try await device.leave()
                try peer.sendMessages(to: scene.ours, count: 60, prefix: "b")
                try await eventually("the device that stayed has them") { try other.notes.count == 62 + 1 }
                try await other.send("from the other", to: scene.theirs)
                try await eventually("the peer reads that too") { try peer.received.count == 2 }

                let next = try await scene.device(pageSize: 7)
                let expected = numbered("live", 2) + numbered("b", 60) + ["from the other"]
                #expect(try await next.heard(63) == expected.blind)
                try await next.quiet()
                #expect(try next.notes.count == 63, "each once, and what it wrote itself not at all")
                // Again: nothing is new.
                try await next.leave()
                let last = try await scene.device(pageSize: 7)
                try await last.quiet()
                #expect(try last.notes.count == 63)
                try await last.send("two", to: scene.theirs)
                try await eventually("the peer reads the last") { try peer.received.last == "two" }
                try peer.expectReadAll()
            }
        }

        @Test(
            "O5 a session that is broken in the archive is repaired once, behind the last page",
            arguments: ServerKind.allCases)
        func repairedAfterwards(_ kind: ServerKind) async throws {
            try await withScene(kind) { scene in
                let device = try await scene.device()
                let other = try await scene.device("other")
                let peer = try scene.peer(.omemo2)
                try await device.send("one", to: scene.theirs)
                try await eventually("the peer reads it") { try peer.received == ["one"] }
                try await device.answered()
                try peer.sendMessages(to: scene.ours, count: 1, prefix: "live")
                _ = try await device.heard(1)
                try await eventually("the other device has answered") { try peer.empty == 1 }
                try await device.leave()
                try peer.sendMessages(to: scene.ours, count: 30, prefix: "lost")
                try await eventually("the device that stayed has them") { try other.notes.count == 32 }
                let next = try scene.offlineDevice("ours", pageSize: 5)
                try next.store.step { step in
                    _ = try step.execute(
                        "DELETE FROM omemo_session WHERE jid = ?", scene.theirs)
                    // What was sent, and whether the archive was read to its end.
                    try step.execute("CREATE TABLE written(place TEXT)")
                    try step.execute(
                        """
                        CREATE TRIGGER written AFTER INSERT ON outbox WHEN NEW.kind = 0
                        BEGIN INSERT INTO written SELECT
                            CASE WHEN EXISTS (SELECT 1 FROM archive WHERE state IN (1, 2)) THEN 'before' ELSE 'behind' END;
                        END
                        """)
                }
                try await next.account.connect()
                try await next.account.omemo.start()
                let failed = [String](repeating: "failed no-session", count: 30)
                try await eventually("all of them came") {
                    try next.notes.filter { $0.hasPrefix("failed") } == failed
                }
                try await eventually("the peer has the new session") { try peer.empty == 2 }
                try await next.quiet()
                #expect(try next.texts("SELECT place FROM written") == ["behind"], "one repair for all")
                try await next.send("two", to: scene.theirs)
                try await eventually("the peer reads it") { try peer.received.last == "two" }
            }
        }
    }
}
