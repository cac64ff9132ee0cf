import Handlers
import PubSub
import TestThreads
import Testing
import XMPPAccount
import XMPPCore

/// A request and its answer, step by step, in a store and without a server.
@Suite(.ownThread) struct DurableRequestTests {
    private static let juliet = "juliet@capulet.lit"

    private func answer(
        _ id: String, from: String? = DurableRequestTests.juliet, _ type: String, _ xml: String
    ) -> String {
        let from = from.map { " from='\($0)'" } ?? ""
        return "<iq type='\(type)' id='\(id)'\(from)>\(xml)</iq>"
    }

    private func items(_ xml: String) -> String {
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='nick'>\(xml)</items></pubsub>"
    }

    private func error(_ condition: String) -> String {
        "<error type='cancel'><\(condition) xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
    }

    @Test("P3 a fetch stores the request as it will be sent, with its handlers, in the caller's step")
    func storesRequest() async throws {
        let offline = try PubSubAccount()
        let then = try Notes.Fetched(tag: "t").durable
        let id = try offline.store.step { step in
            try offline.account.send(
                .pubsub(.items(of: "nick", .newest(1)), at: JID(Self.juliet)), then: then, in: step)
        }
        #expect(
            try offline.outbox == [
                """
                <iq type='get' id='\(id)' to='juliet@capulet.lit'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
                <items node='nick' max_items='1'/></pubsub></iq>
                """
            ])
        #expect(try offline.rows == [.init(name: "pubsub.answered", state: 0)])

        struct GivenUp: Error {}
        #expect(throws: GivenUp.self) {
            try offline.store.step { step in
                try offline.account.send(.pubsub(.items(of: "nick")), then: then, in: step)
                throw GivenUp()
            }
        }
        #expect(try offline.outbox.count == 1)
        #expect(try offline.rows.count == 1)
        await offline.close()
    }

    @Test("P3 the asynchronous form commits by itself, and without a service asks the own account")
    func asynchronousForm() async throws {
        let offline = try PubSubAccount()
        let id = try await offline.account.send(
            .pubsub(.publish(PubSubItem(id: "current"), on: "nick")), then: Notes.Published(tag: "t").durable)
        let fetch = try await offline.account.send(
            .pubsub(.items(of: "nick")), then: Notes.Fetched(tag: "t").durable)
        #expect(
            try offline.outbox == [
                """
                <iq type='set' id='\(id)'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
                <publish node='nick'><item id='current'/></publish></pubsub></iq>
                """,
                """
                <iq type='get' id='\(fetch)'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
                <items node='nick'/></pubsub></iq>
                """,
            ])
        try offline.receive("<iq type='result' id='\(id)' from='alice@example.test'/>")
        try offline.receive(answer(fetch, from: nil, "result", items("<item id='current'/>")))
        #expect(
            try offline.notes == [
                "t main alice@example.test nick: published current",
                "t main alice@example.test nick: items current=-",
            ])
        await offline.close()
    }

    @Test(
        "P7 items, not found, an error, no answer and a lost session reach the program as five different things"
    )
    func outcomes() async throws {
        let offline = try PubSubAccount()
        func fetch(_ tag: String) throws -> String {
            try offline.store.step { step in
                try offline.account.send(
                    .pubsub(.items(of: "nick"), at: JID(Self.juliet)), then: Notes.Fetched(tag: tag).durable,
                    orElse: Notes.Abandoned(tag: tag).durable, in: step)
            }
        }
        try offline.receive(
            answer(try fetch("1"), "result", items("<item id='i'><nick xmlns='urn:n'>Jule</nick></item>")))
        try offline.receive(answer(try fetch("2"), "error", error("item-not-found")))
        try offline.receive(answer(try fetch("3"), "error", error("forbidden")))
        try offline.expire(try fetch("4"))
        try offline.lose(try fetch("5"))
        let cancelled = try fetch("6")
        #expect(try offline.store.step { try offline.account.cancelRequest(id: cancelled, in: $0) })
        #expect(
            try offline.notes == [
                "1 main juliet@capulet.lit nick: items i=Jule",
                "2 main juliet@capulet.lit nick: not found",
                "3 main juliet@capulet.lit nick: error forbidden",
                "4 main juliet@capulet.lit nick: timed out",
                "5 alice@example.test: test.fetched session-lost",
                "6 alice@example.test: test.fetched cancelled",
            ])
        // One ending each, that of the handler around the program's; nothing is left.
        #expect(
            try offline.endings == [
                "pubsub.answered result", "pubsub.answered error", "pubsub.answered error",
                "pubsub.answered timeout", "pubsub.answered invalidated session-lost",
                "pubsub.answered invalidated cancelled",
            ])
        #expect(try offline.rows.isEmpty)
        await offline.close()
    }

    @Test("P7 an answer is taken once and only from whom was asked")
    func answeredOnce() async throws {
        let offline = try PubSubAccount()
        let then = try Notes.Fetched(tag: "t").durable
        let id = try await offline.account.send(.pubsub(.items(of: "nick"), at: JID(Self.juliet)), then: then)
        for stranger in [
            "romeo@montague.lit", "juliet@capulet.lit/balcony", "capulet.lit", "alice@example.test",
        ] {
            try offline.receive(answer(id, from: stranger, "error", error("item-not-found")))
        }
        #expect(try offline.notes.isEmpty)
        for _ in 1...2 { try offline.receive(answer(id, "result", items(""))) }
        #expect(try offline.notes == ["t main juliet@capulet.lit nick: items "])
        await offline.close()
    }

    @Test("P7 without an invalidation the ending is still recorded")
    func noInvalidation() async throws {
        let offline = try PubSubAccount()
        let id = try await offline.account.send(
            .pubsub(.items(of: "nick")), then: Notes.Fetched(tag: "t").durable)
        try offline.lose(id)
        #expect(try offline.notes.isEmpty)
        #expect(try offline.endings == ["pubsub.answered invalidated session-lost"])
        await offline.close()
    }

    @Test("P7 a program without the module's handlers is notified when it asks, not when the answer comes")
    func unregistered() async throws {
        let offline = try PubSubAccount(handlers: Notes.handlers)
        let error = await #expect(throws: HandlerError.self) {
            try await offline.account.send(.pubsub(.items(of: "nick")), then: Notes.Fetched(tag: "t").durable)
        }
        #expect(error?.code == .unknownHandler)
        #expect(error?.message.contains("discovered(and: PubSubService.handlers)") == true)
        #expect(try offline.outbox.isEmpty)
        await offline.close()
    }
}
