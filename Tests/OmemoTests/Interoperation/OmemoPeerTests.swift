import Handlers
import TestSupport
@testable import Omemo
import Testing
import XMPPAccount
import XMPPCore
import TestServers

extension OmemoOnServersTests {
    /// One device of ours and one of an independent client.
    @Suite struct OmemoPeerTests {
        @Test(
            "O9 we start, the peer answers, both go on", arguments: ServerKind.allCases,
            Interoperation.Spoken.allCases)
        func weStart(_ kind: ServerKind, _ spoken: Interoperation.Spoken) async throws {
            try await withScene(kind) { scene in
                let peer = try scene.peer(spoken)
                let device = try await scene.device()
                for text in numbered("a", 3) { try await device.send(text, to: scene.theirs) }
                try await eventually("the peer reads three") { try peer.received.count == 3 }
                try peer.sendMessages(to: scene.ours, count: 3, prefix: "b")
                #expect(try await device.heard(3) == numbered("b", 3).blind)
                for text in numbered("c", 3) { try await device.send(text, to: scene.theirs) }
                try await eventually("the peer reads six") { try peer.received.count == 6 }
                #expect(try peer.received == numbered("a", 3) + numbered("c", 3))
                try peer.expectReadAll()
            }
        }

        @Test(
            "O9 the peer starts, we answer, both go on", arguments: ServerKind.allCases,
            Interoperation.Spoken.allCases)
        func theyStart(_ kind: ServerKind, _ spoken: Interoperation.Spoken) async throws {
            try await withScene(kind) { scene in
                let device = try await scene.device()
                let peer = try scene.peer(spoken)
                try peer.sendMessages(to: scene.ours, count: 3, prefix: "b")
                #expect(try await device.heard(3) == numbered("b", 3).blind)
                for text in numbered("a", 3) { try await device.send(text, to: scene.theirs) }
                try await eventually("the peer reads three") { try peer.received.count == 3 }
                #expect(try peer.received == numbered("a", 3))
                try peer.expectReadAll()
            }
        }

        @Test(
            "O9 both start at the same moment: twenty messages each way arrive",
            arguments: ServerKind.allCases,
            [Interoperation.Spoken.legacy, .omemo2])
        func crossing(_ kind: ServerKind, _ spoken: Interoperation.Spoken) async throws {
            try await withScene(kind) { scene in
                let device = try await scene.device()
                let peer = try scene.peer(spoken)
                try peer.sendMessages(to: scene.ours, count: 20, rate: 20, prefix: "b")
                for text in numbered("a", 20) {
                    try await device.send(text, to: scene.theirs)
                    try await Task.sleep(for: .milliseconds(50))
                }
                try await eventually("both read everything") {
                    let (theirCount, ourCount) = (try peer.received.count, try device.notes.count)
                    return theirCount >= 20 && ourCount >= 20
                }
                #expect(try peer.received == numbered("a", 20))
                #expect(try device.notes == numbered("b", 20).blind)
                try peer.expectReadAll()
            }
        }

        @Test(
            "O9 messages to a device that was away come from the server's store, and are read",
            arguments: ServerKind.allCases, [Interoperation.Spoken.legacy, .omemo2])
        func offline(_ kind: ServerKind, _ spoken: Interoperation.Spoken) async throws {
            try await withScene(kind) { scene in
                let device = try await scene.device()
                let peer = try scene.peer(spoken)
                try await device.send("one", to: scene.theirs)
                try await eventually("the peer reads it") { try peer.received == ["one"] }
                try await device.leave()
                try peer.sendMessages(to: scene.ours, count: 5, prefix: "b")
                _ = try peer.waitUntilSent(prefix: "b", deadline: .now + .seconds(20))
                let next = try await scene.device()
                #expect(try await next.heard(5) == numbered("b", 5).blind)
                try await next.send("two", to: scene.theirs)
                try await eventually("the peer reads the second") { try peer.received == ["one", "two"] }
                try await next.quiet()
                #expect(try next.notes == numbered("b", 5).blind)
                try peer.expectReadAll()
            }
        }

        @Test(
            "O9 a device of ours that has lost its sessions repairs them: it reads the peer and is read",
            arguments: ServerKind.allCases)
        func sessionsLost(_ kind: ServerKind) async throws {
            try await withScene(kind) { scene in
                let device = try await scene.device()
                let peer = try scene.peer(.omemo2)
                try await device.send("one", to: scene.theirs)
                try await eventually("the peer reads it") { try peer.received == ["one"] }
                try await device.answered()
                // Sessions are lost, the identity is kept: the user put a copy of the keys back.
                try device.store.step { _ = try $0.execute("DELETE FROM omemo_session") }
                try peer.sendMessages(to: scene.ours, count: 1, prefix: "lost")
                let failed = "failed no-session"
                #expect(Set(try await device.heard(1)) == [failed])
                // The repair starts a new session, in which both go on.
                try await eventually("the peer has the new session") {
                    try device.number("SELECT count(*) FROM omemo_session") == 1
                }
                try await device.quiet()
                try await device.send("two", to: scene.theirs)
                try await eventually("the peer reads the second") { try peer.received == ["one", "two"] }
                try peer.sendMessages(to: scene.ours, count: 2, prefix: "b")
                try await eventually("the peer's messages are heard") {
                    // The peer's own sign that it has the session, which carries no text, may come late and fail as well.
                    try device.notes.filter { $0 != failed } == ["b-1 blind", "b-2 blind"]
                }
            }
        }
    }
}
