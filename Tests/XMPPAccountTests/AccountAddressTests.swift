import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Addresses that servers let through although no program can write them.
@Suite(.ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct AccountAddressTests {
    @Test(
        "X30 messages and requests of an address that stringprep allows are handled and answered, also by a handler",
        arguments: [
            "♥nurse@localhost/a", "☎4711@localhost/☎", "a±b@localhost/x", "a\u{5D0}@localhost/a",
        ])
    func stranger(address: String) async throws {
        try await withRig { rig in
            let stranger = try JID(received: address)
            let answers = Kept<[String]>([])
            let bot = rig.server.addBot(jid: stranger) { stanza, _ in
                answers.withLock {
                    $0.append("\(stanza.name) \(stanza["id"] ?? "-") \(stanza["type"] ?? "-")")
                }
            }
            let account = try await rig.connected()
            let full = try #require(rig.server.boundAddresses.last)
            try await account.listen()
            try await account.answer("question", in: TestApp.namespace, with: TestApp.Served().durable)
            bot.send(rig.messageToAlice("m1", "hello"))
            let ping = Element("ping", namespace: Namespaces.ping)
            bot.send(IQ(type: .get, to: full, id: "p1", payload: ping).element)
            let question = Element("question", namespace: TestApp.namespace, attributes: ["want": "result"])
            bot.send(IQ(type: .get, to: full, id: "q1", payload: question).element)
            try await eventually { try account.store.notes("message") == ["m1: hello"] }
            try await eventually("both answers among \(answers.withLock { $0 })") {
                answers.withLock { Set($0).isSuperset(of: ["iq p1 result", "iq q1 result"]) }
            }
            #expect(try account.store.notes("served") == ["q1: \(stranger)"])
            try await account.caughtUp()
            try await account.send(Message(to: stranger, id: "m2", body: "hi"))
            try await eventually("m2 among \(answers.withLock { $0 })") {
                answers.withLock { $0.contains { $0.hasPrefix("message m2 ") } }
            }
            try await rig.expectAllCounted(account)
        }
    }
}
