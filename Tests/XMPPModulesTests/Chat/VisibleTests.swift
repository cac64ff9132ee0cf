import AccountTestSupport
import Handlers
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount
@testable import XMPPModules

/// What other clients see of an account beside its texts.
@Suite(.ownThread) struct VisibleTests {
    @Test(
        "X37 a text in a chat says that its sender is active, unless it has a chat state; what is no text says nothing",
        arguments: [
            (.chat, "hi", [], ["active"]), (.chat, "hi", [.composing], ["composing"]),
            (.normal, "hi", [], []),
            (.chat, nil, [], []),
        ] as [(Message.Kind, String?, [ChatState], [String])])
    func states(type: Message.Kind, body: String?, given: [ChatState], states: [String]) async throws {
        try await withFed(ChatModule()) { fed in
            let message = Message(
                to: try JID("romeo@localhost"), type: type, body: body, children: given.map(\.element))
            _ = try fed.step { try fed.account.chat.send(message, in: $0) }
            let sent = try #require(fed.takeSent().first)
            let found = sent.elements.filter { $0.namespace == Namespaces.chatStates }
            #expect(found.map(\.name.string) == states)
        }
    }

    @Test("X37 what is announced is answered: a version with its name, and receipts only where they are sent")
    func announced() async throws {
        for (software, receipts) in [
            (("Verona", "1.0"), .everyone), (nil, .nobody),
        ] as [((String, String)?, ChatModule.Receipts)] {
            let disco = DiscoModule(software: software.map { (name: $0.0, version: $0.1) })
            try await withFed(disco, ChatModule(receipts: receipts)) { fed in
                let features = try fed.step { try fed.account.features(in: $0) }
                #expect(features.contains(Namespaces.version) == (software != nil))
                #expect(features.contains(Namespaces.receipts) == (receipts != .nobody))
                try fed.receive(
                    "<iq type='get' id='v' from='romeo@localhost/a'><query xmlns='jabber:iq:version'/></iq>")
                let answer = try IQ(element: #require(fed.takeSent().first))
                #expect((answer.type == .result) == (software != nil))
            }
        }
    }

    @Test("X37 requests and answers with one child too many are taken as other clients take them")
    func surplusChild() async throws {
        try await withFed(RosterModule()) { fed in
            let extra = "<extra xmlns='urn:example:extra'/>"
            try fed.receive(
                "<iq type='get' id='p1' from='romeo@localhost/a'><ping xmlns='urn:xmpp:ping'/>\(extra)</iq>")
            let pong = try IQ(element: #require(fed.takeSent().first))
            #expect(pong.type == .result && pong.id == "p1")
            let item = "<item jid='nurse@localhost' subscription='both'/>"
            try fed.receive(
                "<iq type='set' id='r1'><query xmlns='jabber:iq:roster'>\(item)</query>\(extra)</iq>")
            #expect(
                try fed.step { try fed.account.roster.items(in: $0) }.map(\.jid.description) == [
                    "nurse@localhost"
                ])
            // Two contacts in one push are refused (RFC 6121 section 2.1.6).
            _ = try fed.takeSent()
            try fed.receive(
                "<iq type='set' id='r2'><query xmlns='jabber:iq:roster'>\(item)<item jid='x@localhost'/></query></iq>"
            )
            let refusal = try IQ(element: #require(fed.takeSent().first))
            #expect(refusal.error?.condition == .badRequest)
            let id = try fed.step { step in
                try fed.account.send(
                    .iq(
                        IQ(
                            type: .get, to: JID("romeo@localhost/a"),
                            payload: Element("ping", namespace: Namespaces.ping))),
                    then: TestApp.Answered(name: "two").durable, in: step)
            }
            try fed.receive(
                "<iq type='result' id='\(id)' from='romeo@localhost/a'><pong xmlns='urn:xmpp:ping'/>\(extra)</iq>"
            )
            #expect(try fed.store.notes("ended") == ["two: result pong from romeo@localhost/a"])
        }
    }
}
