@testable import Omemo
import Testing
import XMPPCore
import XMPPTestKit

/// With an independent client on a real server.
@Suite(.serialized) struct OmemoPeerTests {
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
