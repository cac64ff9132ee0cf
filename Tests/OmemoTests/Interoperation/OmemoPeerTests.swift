import Handlers
@testable import Omemo
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// With an independent client on a real server.
@Suite(.ownThread, .serialized) struct OmemoPeerTests {
    private let ours = Interoperation.ours
    private let theirs = Interoperation.theirs

    private func numbered(_ prefix: String, _ count: Int) -> [String] {
        (1...count).map { "\(prefix)-\($0)" }
    }

    @Test("O9 we begin, the peer answers, both go on", arguments: Interoperation.Spoken.allCases)
    func weBegin(_ spoken: Interoperation.Spoken) async throws {
        let scene = try Interoperation()
        defer { scene.report() }
        let peer = try scene.peer(theirs + "/py", spoken)
        let device = try await scene.device()
        try await device.published()
        for text in numbered("a", 3) { try await device.send(text, to: theirs) }
        try await eventually("the peer reads three") { try peer.received.count == 3 }
        try peer.sendMessages(to: ours, count: 3, prefix: "b")
        #expect(try await device.heard(3) == numbered("b", 3).map { $0 + " blind" })
        for text in numbered("c", 3) { try await device.send(text, to: theirs) }
        try await eventually("the peer reads six") { try peer.received.count == 6 }
        #expect(try peer.received == numbered("a", 3) + numbered("c", 3))
        #expect(try peer.unreadable == [])
        await scene.close()
    }

    @Test("O9 the peer begins, we answer, both go on", arguments: Interoperation.Spoken.allCases)
    func theyBegin(_ spoken: Interoperation.Spoken) async throws {
        let scene = try Interoperation()
        defer { scene.report() }
        let device = try await scene.device()
        try await device.published()
        let peer = try scene.peer(theirs + "/py", spoken)
        try peer.sendMessages(to: ours, count: 3, prefix: "b")
        #expect(try await device.heard(3) == numbered("b", 3).map { $0 + " blind" })
        for text in numbered("a", 3) { try await device.send(text, to: theirs) }
        try await eventually("the peer reads three") { try peer.received.count == 3 }
        #expect(try peer.received == numbered("a", 3))
        #expect(try peer.unreadable == [])
        await scene.close()
    }

    @Test(
        "O9 both begin at the same moment: twenty messages each way arrive",
        arguments: [Interoperation.Spoken.legacy, .omemo2])
    func crossing(_ spoken: Interoperation.Spoken) async throws {
        let scene = try Interoperation()
        defer { scene.report() }
        let device = try await scene.device()
        try await device.published()
        let peer = try scene.peer(theirs + "/py", spoken)
        try peer.sendMessages(to: ours, count: 20, rate: 20, prefix: "b")
        for text in numbered("a", 20) {
            try await device.send(text, to: theirs)
            try await Task.sleep(for: .milliseconds(50))
        }
        try await eventually("both read everything") {
            let (theirCount, ourCount) = (try peer.received.count, try device.notes.count)
            return theirCount >= 20 && ourCount >= 20
        }
        #expect(try peer.received == numbered("a", 20))
        #expect(try device.notes == numbered("b", 20).map { $0 + " blind" })
        #expect(try peer.unreadable == [])
        await scene.close()
    }
}

extension OmemoPeerTests {
    @Test("O9 three devices on each side, and everybody reads everything", .timeLimit(.minutes(3)))
    func threeDevices() async throws {
        let scene = try Interoperation()
        defer { scene.report() }
        var devices: [Interoperation.Ours] = []
        // One after the other, as devices are added: each finds those before it on the list.
        for name in ["a", "b", "c"] {
            devices.append(try await scene.device(store: name))
            try await devices[devices.count - 1].published()
        }
        let peers = [
            try scene.peer(theirs + "/p1", .both), try scene.peer(theirs + "/p2", .legacy),
            try scene.peer(theirs + "/p3", .omemo2),
        ]
        for device in devices { try await device.account.omemo.start() }
        try await devices[0].send("from-a", to: theirs)
        for peer in peers { try await eventually("every peer reads it") { try peer.received == ["from-a"] } }
        try peers[0].sendMessages(to: ours, count: 2, prefix: "b")
        for device in devices {
            try await eventually("every device of ours reads it") {
                try device.notes.filter { $0.hasPrefix("b-") }.count == 2
            }
        }
        try await devices[2].send("from-c", to: theirs)
        for peer in peers {
            try await eventually("every peer reads it too") { try peer.received.contains("from-c") }
        }
        for peer in peers { #expect(try peer.unreadable == []) }
        await scene.close()
    }

    @Test(
        "O9 messages to a device that was away come from the server's store, and are read",
        arguments: [Interoperation.Spoken.legacy, .omemo2])
    func offline(_ spoken: Interoperation.Spoken) async throws {
        let scene = try Interoperation()
        defer { scene.report() }
        let device = try await scene.device()
        try await device.published()
        let peer = try scene.peer(theirs + "/py", spoken)
        try await device.send("one", to: theirs)
        try await eventually("the peer reads it") { try peer.received == ["one"] }
        // Gone for good: the server stores what comes.
        try await device.account.logOut()
        try peer.sendMessages(to: ours, count: 5, prefix: "b")
        _ = try peer.waitUntilSent(prefix: "b", deadline: .now + .seconds(20))
        try await device.account.connect()
        try await device.account.omemo.start()
        #expect(try await device.heard(5) == numbered("b", 5).map { $0 + " blind" })
        try await device.send("two", to: theirs)
        try await eventually("the peer reads the second") { try peer.received == ["one", "two"] }
        #expect(try peer.unreadable == [])
        await scene.close()
    }

    @Test("O9 a device of ours that has lost its sessions repairs them: it reads the peer and is read")
    func sessionsLost() async throws {
        let scene = try Interoperation()
        defer { scene.report() }
        let device = try await scene.device()
        try await device.published()
        let peer = try scene.peer(theirs + "/py", .omemo2)
        try await device.send("one", to: theirs)
        try await eventually("the peer reads it") { try peer.received == ["one"] }
        // Sessions are lost, the identity is kept: the user put a copy of the keys back.
        try device.store.step { _ = try $0.execute("DELETE FROM omemo_session") }
        try peer.sendMessages(to: ours, count: 1, prefix: "lost")
        // The peer's own sign that it has the session, which carries no text, may come late and fail as well.
        let failed = "failed no-session"
        #expect(Set(try await device.heard(1)) == [failed])
        // The repair begins a new session, in which both go on.
        try await eventually("the peer has the new session") {
            try device.store.step { step in
                try step.first("SELECT count(*) FROM omemo_session") { (row) throws(HandlerError) in
                    row.integer(0)
                } == 1
            }
        }
        try await device.account.caughtUp()
        try await device.send("two", to: theirs)
        try await eventually("the peer reads the second") { try peer.received == ["one", "two"] }
        try peer.sendMessages(to: ours, count: 2, prefix: "b")
        try await eventually("the peer's messages are heard") {
            try device.notes.filter { $0 != failed } == ["b-1 blind", "b-2 blind"]
        }
        await scene.close()
    }

    @Test(
        "O8 O9 a group of three in a members-only room: two peers and we read one another",
        arguments: [Interoperation.Spoken.legacy, .omemo2])
    func room(_ spoken: Interoperation.Spoken) async throws {
        let scene = try Interoperation(users: ["romeo", "juliet", "mercutio"])
        defer { scene.report() }
        let room = try JID("garden@conference.localhost")
        let members = ["romeo@localhost", "juliet@localhost", "mercutio@localhost"]
        let device = try await scene.device()
        try await device.published()
        try await device.makeRoom(room, members: members)
        let peers = try ["juliet", "mercutio"].map {
            try scene.peer("\($0)@localhost/py", spoken, room: room.description, members: members)
        }
        _ = try await device.account.perform { step in
            try device.account.omemo.send(
                OmemoContent(body: "to-all"), toRoom: room, then: World.Reported().durable, in: step)
        }
        for peer in peers {
            try await eventually("a peer reads the room") { try peer.received == ["to-all"] }
        }
        try peers[0].sendMessages(to: room.description, count: 2, prefix: "j")
        try await eventually("the other peer and we read it") {
            let (other, own) = (try peers[1].received, try device.notes)
            return other.count == 3 && own.count == 2
        }
        #expect(try device.notes == ["j-1 blind", "j-2 blind"])
        _ = try await device.account.perform { step in
            try device.account.omemo.send(OmemoContent(body: "again"), toRoom: room, in: step)
        }
        for peer in peers {
            try await eventually("a peer reads the room again") { try peer.received.last == "again" }
        }
        await scene.close()
    }
}
