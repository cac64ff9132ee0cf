import Glibc
import Handlers
import TestSupport
@testable import Omemo
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers

/// What is sent again is what was sent: no ratchet moves, and nobody could tell two ciphertexts of one message.
@Suite(.ownThread) struct ResendTests {
    private let romeo = ScriptedScene.romeo
    private let juliet = ScriptedScene.juliet

    private func ratchets(_ device: Ours) throws -> [String] {
        try device.texts("SELECT hex(record) FROM omemo_session ORDER BY id")
    }

    @Test(
        "O6 after a lost session the same ciphertext is sent again, byte for byte, no ratchet moves, and it is read once"
    )
    func lostSession() async throws {
        let scene = try ScriptedScene()
        let (ours, other) = (try await scene.device(romeo), try await scene.device(juliet))
        try await ours.send("one", to: juliet)
        #expect(try await other.heard(1) == ["one blind"])
        try await ours.answered()
        scene.server.setAcknowledgements(.never)
        try await ours.send("two", to: juliet)
        #expect(try await other.heard(2).last == "two blind")
        let before = try ratchets(ours)
        scene.server.refuseNextResumption(of: "romeo")
        let (end, session) = (scene.server.log.count, try ours.number("SELECT number FROM session"))
        scene.server.dropConnections(of: .jid(try JID(romeo)))
        try await eventually("another session begins") {
            try ours.number("SELECT number FROM session") > session
        }
        try await eventually("the message comes again") { try scene.written(by: romeo).count == 3 }
        let written = try scene.written(by: romeo)
        #expect(scene.server.log.entries(from: end).contains { $0.event == .resumeFailed })
        #expect(written[2].child("delay", Namespaces.delay) != nil)
        #expect(written[2].withoutDelay.serialized() == written[1].serialized())
        #expect(try ratchets(ours) == before)
        try await ours.send("three", to: juliet)
        #expect(try await other.heard(3) == ["one", "two", "three"].blind)
        await scene.close()
    }

    @Test(
        "O6 after SIGKILL the next process sends the same ciphertext, byte for byte: again in another session, or for the first time in the same",
        arguments: [true, false])
    func killed(_ wasWritten: Bool) async throws {
        let scene = try ScriptedScene()
        let other = try await scene.device(juliet)
        let store = try HandlerStore(
            path: "\(scene.folder.path)/\(romeo).db", registry: HandlerRegistry(),
            schemas: Account.schemas + OmemoService.schemas)
        func run(_ count: Int) throws -> ChildProcess {
            try ChildProcess(
                BuiltProduct.path("omemo-device"), scene.arguments(romeo, peer: juliet, count: count),
                input: .pipe, output: .pipe, errors: .file("\(scene.folder.path)/errors"))
        }
        func waiting() throws -> [Element] {
            let rows = try store.step { step in
                try step.all("SELECT xml FROM outbox WHERE kind = 0 ORDER BY seq") {
                    (row) throws(HandlerError) in String(decoding: row.blob(0), as: UTF8.self)
                }
            }
            return try rows.map { try Element(parsing: $0, defaultNamespace: Namespaces.client) }
                .filter { $0.serialized().contains("<payload") }
        }
        let first = try run(1)
        _ = try first.output?.readLine(deadline: .now + .seconds(30)) { $0 == "quiet" }
        #expect(try await other.heard(1) == ["a-1 blind"])
        _ = first.killAndWait()
        scene.server.update { $0.acknowledgements = .never }
        scene.server.setAcknowledgements(.never)
        scene.refusals.isOn = !wasWritten
        let second = try run(2)
        try await eventually("the server has the message, or has seen it twice in vain") {
            wasWritten ? try scene.written(by: romeo).count == 2 : scene.refusals.messages.count >= 2
        }
        _ = second.killAndWait()
        let kept = try #require(try waiting().first)
        let before = wasWritten ? [try scene.written(by: romeo)[1]] : scene.refusals.messages
        scene.refusals.isOn = false
        if wasWritten { scene.server.refuseNextResumption(of: "romeo") }
        let third = try run(2)
        let expected = wasWritten ? 3 : 2
        try await eventually("the message comes") { try scene.written(by: romeo).count == expected }
        let last = try #require(try scene.written(by: romeo).last).withoutDelay
        for message in before { #expect(message.serialized() == last.serialized()) }
        #expect(kept.elements.map { $0.serialized() } == last.elements.map { $0.serialized() })
        #expect(try await other.heard(2) == ["a-1", "a-2"].blind)
        _ = third.killAndWait()
        await scene.close()
    }
}
