import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount
@testable import XMPPModules

/// What becomes of messages that were sent, and receipts for those that come.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct ChatTests {
    private func connected(
        _ rig: AccountRig, _ modules: [any AccountModule] = [CarbonsModule(), ChatModule()]
    ) async throws -> Account {
        let account = try await rig.connected { $0.modules = modules }
        try await account.listen()
        try await account.caughtUp()
        return account
    }

    private func delivery(_ account: Account, _ id: String) async throws -> Delivery? {
        try await account.perform { try account.chat.delivery(of: id, in: $0) }
    }

    private func receipt(_ id: String, from: String? = nil, body: String? = nil) -> Element {
        Message(
            to: AccountRig.alice, id: "r-\(id)", body: body,
            children: [Element("received", namespace: Namespaces.receipts, attributes: ["id": id])]
        ).element
    }

    private func send(
        _ account: Account, _ id: String, within: Duration = Chat.patience, attempts: Int = 1
    ) async throws {
        try await account.perform {
            try account.chat.send(
                Message(to: AccountRig.peer, id: id, body: "hello"), within: within, attempts: attempts,
                then: ModulesApp.DeliverySeen(name: id).durable, in: $0)
        }
    }

    @Test("X12 a message is first acknowledged by the server and then delivered, and both are stored")
    func twoStates() async throws {
        try await withModulesRig { rig in
            let account = try await connected(rig)
            try await send(account, "m1")
            try await account.caughtUp()
            let acknowledged = try await delivery(account, "m1")
            #expect(acknowledged?.acknowledgedAt != nil)
            #expect(acknowledged?.deliveredAt == nil)
            let sent = try #require(rig.xml(ofID: "m1").first)
            #expect(sent.contains("<request xmlns='urn:xmpp:receipts'/>"))
            #expect(sent.contains("<origin-id"))
            rig.bot.send(receipt("m1"))
            rig.bot.send(receipt("m1"))
            try await account.caughtUp()
            let delivered = try await delivery(account, "m1")
            #expect(delivered?.deliveredAt != nil)
            #expect(delivered?.isOver == true)
            #expect(try account.store.notes("delivery") == ["m1: delivered"], "the handler is called once")
            #expect(try account.store.notes("message").isEmpty, "a receipt alone is no message")
        }
    }

    @Test("X12 a stranger's receipt, or one out of thin air, changes nothing")
    func strangersReceipt() async throws {
        try await withModulesRig { rig in
            let stranger = rig.server.addBot(jid: try JID("mallory@localhost/x"))
            let account = try await connected(rig)
            try await send(account, "m1")
            stranger.send(receipt("m1"))
            rig.bot.send(receipt("unknown"))
            // A copy of what our other client sent is no receipt for us.
            rig.server.send(
                Message(
                    to: AccountRig.alice,
                    children: [
                        Element(
                            "sent", namespace: Namespaces.carbons,
                            children: [
                                Element(
                                    "forwarded", namespace: Namespaces.forward,
                                    children: [self.withFrom(receipt("m1"), "alice@localhost/other")])
                            ])
                    ]
                ).element, from: AccountRig.alice)
            try await account.caughtUp()
            #expect(try await delivery(account, "m1")?.deliveredAt == nil)
            #expect(try account.store.notes("delivery").isEmpty)
            rig.bot.send(receipt("m1", body: "and a text"))
            try await account.caughtUp()
            #expect(try await delivery(account, "m1")?.deliveredAt != nil)
            #expect(try account.store.notes("message") == ["r-m1: and a text"])
        }
    }

    private func withFrom(_ element: Element, _ from: String) -> Element {
        var element = element
        element["from"] = ForeignText(from)
        return element
    }

    @Test("X12 a message that comes back as an error has failed, whatever comes later but a receipt")
    func bounced() async throws {
        try await withModulesRig { rig in
            let account = try await connected(rig)
            try await send(account, "m1")
            try await account.caughtUp()
            var error = Message(to: AccountRig.alice, type: .error, id: "m1").element
            error.append(StanzaError(.serviceUnavailable).element)
            let stranger = rig.server.addBot(jid: try JID("mallory@localhost/x"))
            stranger.send(error)
            try await account.caughtUp()
            #expect(try await delivery(account, "m1")?.failure == nil, "a stranger's error changes nothing")
            rig.bot.send(error)
            try await account.caughtUp()
            #expect(try await delivery(account, "m1")?.failure == .refused(.serviceUnavailable))
            #expect(try account.store.notes("delivery") == ["m1: refused service-unavailable"])
        }
    }

    @Test(
        "X12 what is not confirmed in time is sent again with the same id, as often as wanted, and then given up"
    )
    func sentAgain() async throws {
        try await withModulesRig { rig in
            let account = try await connected(rig)
            try await send(account, "m1", within: .seconds(60), attempts: 2)
            try await account.caughtUp()
            try await self.fire(account)
            try await eventually { rig.xml(ofID: "m1").count == 2 }
            let copies = rig.xml(ofID: "m1")
            #expect(copies[1].contains("urn:xmpp:delay"))
            #expect(try await delivery(account, "m1")?.attempts == 2)
            try await account.caughtUp()
            try await self.fire(account)
            #expect(try await delivery(account, "m1")?.failure == .timedOut)
            #expect(try account.store.notes("delivery") == ["m1: timed out"])
            rig.bot.send(receipt("m1"))
            try await account.caughtUp()
            #expect(try await delivery(account, "m1")?.deliveredAt != nil, "it had arrived all the same")
            #expect(try account.store.notes("delivery") == ["m1: timed out"], "the handler had its end")
        }
    }

    /// Lets the time of the deadlines be over.
    private func fire(_ account: Account) async throws {
        _ = try await account.perform { step in
            try step.execute("UPDATE handler SET due = 1 WHERE name = 'chat.deadline'")
        }
        _ = try account.runner.runDue()
    }

    @Test("X12 both states survive lost sessions; a log-out ends what the server did not get")
    func lostSessions() async throws {
        try await withModulesRig { rig in
            let account = try await connected(rig)
            let events = EventReader(account)
            rig.server.pause([.reading])
            try await send(account, "m1")
            rig.server.expireSessions()
            await events.until("bound")
            try await account.caughtUp()
            #expect(try await delivery(account, "m1")?.acknowledgedAt != nil)
            #expect(rig.xml(ofID: "m1").last?.contains("urn:xmpp:delay") == true)
            try await account.suspend()
            try await send(account, "m2")
            try await account.logOut()
            #expect(try account.store.notes("delivery") == ["m2: logged out"])
        }
    }

    @Test(
        "X12 the wish for a receipt is granted to those to whom was written, and not for rooms, errors or copies"
    )
    func receipts() async throws {
        try await withModulesRig { rig in
            let account = try await connected(rig)
            let request = Element("request", namespace: Namespaces.receipts)
            func wish(_ id: String, _ type: Message.Kind = .chat) -> Element {
                Message(to: AccountRig.alice, type: type, id: id, body: "hello", children: [request]).element
            }
            rig.bot.send(wish("before"))
            try await account.caughtUp()
            try await send(account, "m1")
            rig.bot.send(wish("chat"))
            rig.bot.send(wish("normal", .normal))
            rig.bot.send(wish("room", .groupchat))
            rig.bot.send(wish("error", .error))
            let copy = Element(
                "received", namespace: Namespaces.carbons,
                children: [
                    Element(
                        "forwarded", namespace: Namespaces.forward,
                        children: [self.withFrom(wish("copy"), AccountRig.peer.description)])
                ])
            rig.server.send(Message(to: AccountRig.alice, children: [copy]).element, from: AccountRig.alice)
            try await account.caughtUp()
            try await account.caughtUp()
            let confirmed = rig.server.log.entries.filter { $0.event == .received && $0.name == "message" }
                .compactMap(\.xml).filter { $0.contains("<received") }
            #expect(confirmed.count == 2)
            #expect(confirmed.first?.contains("id='chat'") == true)
            #expect(confirmed.last?.contains("id='normal'") == true)
            #expect(confirmed.allSatisfy { !$0.contains("<request") }, "no receipt asks for a receipt")
            #expect(try account.store.notes("message").contains("copy: hello"))
        }
    }

    @Test(
        "X12 messages whose ids are too long get no receipt, and cost the stream nothing",
        arguments: [("i", 300_000), ("i", 1025), ("'", 1024)])
    func longIDs(letter: String, count: Int) async throws {
        try await withModulesRig({
            $0.behavior.stanzaLimit = 10_000
            $0.behavior.announcesStanzaLimit = false
        }) { rig in
            let account = try await connected(rig, [ChatModule(receipts: .everyone)])
            // As an attribute, an apostrophe has six bytes.
            let from = try AccountRig.peer.bare.with(resource: String(repeating: "'", count: 1000))
            let log = rig.server.log.entries.count
            func send(_ id: String) {
                let request = Element("request", namespace: Namespaces.receipts)
                rig.server.send(
                    Message(to: AccountRig.alice, type: .chat, id: id, body: "hello", children: [request])
                        .element, from: from)
            }
            for number in 0..<4 {
                send("\(number)" + String(repeating: letter, count: count - 1))
                send("m\(number)")
            }
            try await account.caughtUp()
            try await account.caughtUp()
            #expect(try account.store.notes("message").count == 8)
            let confirmed = rig.server.log.entries(from: log).filter { $0.event == .received }
                .compactMap(\.xml).filter { $0.contains("<received") }
            #expect(confirmed.count == 4)
            for number in 0..<4 {
                #expect(confirmed.dropFirst(number).first?.contains("id='m\(number)'") == true)
            }
            #expect(rig.server.log.entries.count { $0.event == .connected } == 1, "the stream ended")
        }
    }

    @Test("X12 carbon copies come as what they are, each once, and a stranger's are refused")
    func carbons() async throws {
        try await withModulesRig { rig in
            let account = try await connected(rig)
            func copy(_ kind: String, _ id: String, from: String, to: String) throws -> Element {
                let inner = Message(to: try JID(to), from: try JID(from), id: id, body: "hello").element
                let wrapper = Element(
                    kind, namespace: Namespaces.carbons,
                    children: [Element("forwarded", namespace: Namespaces.forward, children: [inner])])
                return Message(to: AccountRig.alice, children: [wrapper]).element
            }
            let (own, other) = ("alice@localhost/other", "peer@localhost/bot")
            rig.server.send(try copy("sent", "s1", from: own, to: other), from: AccountRig.alice)
            rig.server.send(try copy("received", "r1", from: other, to: own), from: AccountRig.alice)
            rig.server.send(try copy("received", "r1", from: other, to: own), from: AccountRig.alice)
            rig.bot.send(try copy("received", "forged", from: other, to: own))
            rig.bot.send(try copy("sent", "forged", from: own, to: other))
            // Even the own server does not copy what is not the account's.
            rig.server.send(try copy("sent", "odd", from: other, to: own), from: AccountRig.alice)
            try await account.caughtUp()
            #expect(try account.store.notes("message") == ["s1: hello", "r1: hello"])
            let enabling = rig.server.log.entries.filter { $0.event == .received && $0.name == "iq" }
            #expect(
                enabling.filter { $0.xml?.contains("<enable xmlns='urn:xmpp:carbons:2'") == true }.count == 1)
        }
    }

    @Test("X12 a chat state is sent now or never")
    func chatStates() async throws {
        try await withModulesRig { rig in
            let account = try await connected(rig)
            let events = EventReader(account)
            let isSent = try await account.perform {
                try account.chat.send(.composing, to: AccountRig.peer, in: $0)
            }
            #expect(isSent)
            try await rig.saw { $0.xml?.contains("<composing") == true }
            rig.server.pause([.reading])
            _ = try await account.perform { try account.chat.send(.paused, to: AccountRig.peer, in: $0) }
            rig.server.expireSessions()
            await events.until("bound")
            try await account.caughtUp()
            #expect(
                !rig.server.log.entries.contains {
                    $0.event == .received && $0.xml?.contains("<paused") == true
                        && $0.xml?.contains("urn:xmpp:delay") == true
                })
            try await account.suspend()
            let isSentLater = try await account.perform {
                try account.chat.send(.gone, to: AccountRig.peer, in: $0)
            }
            #expect(!isSentLater)
        }
    }
}
