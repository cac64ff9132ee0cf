import Handlers
import PubSub
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore

/// PubSub with a real server.
@Suite(.ownThread, .realServers, .serialized) struct PubSubOnProsodyTests {
    private let node = "urn:durable-handlers:test:nick"

    private func nick(_ text: String) -> Element { Element("nick", namespace: node, text: text) }

    @Test("P3 who asked is gone; the next one receives the items, and that another node is not there")
    func answeredInTheNextProcess() async throws {
        try await withHome(.prosody) { home in
            let first = try home.account(.startTLS)
            try await first.connect()
            try await first.send(
                .pubsub(
                    .publish(
                        PubSubItem(id: "current", payload: nick("Jule")), on: node,
                        requiring: [.accessModel(.open), .persistItems(true)])),
                then: Notes.Published(tag: "p").durable)
            try await home.waitForNotes(1, on: first)

            // A frozen server cannot answer before the one who asked is gone.
            home.server.freeze()
            let fetched = try Notes.Fetched(tag: "f").durable
            try await first.send(.pubsub(.items(of: node)), then: fetched)
            try await first.send(
                .pubsub(.items(of: "urn:durable-handlers:test:unknown"), at: home.jid), then: fetched)
            try await first.suspend()
            #expect(try home.notes.count == 1)
            home.server.thaw()

            let second = try home.account(.startTLS) { $0.role = .worker }
            var events = second.events.makeAsyncIterator()
            try await second.connect()
            guard case .resumed = try #require(await events.next()) else {
                Issue.record("the session was not resumed")
                return
            }
            try await home.waitForNotes(3, on: second)
            #expect(
                try home.notes == [
                    "p main \(home.jid) \(node): published current",
                    "f worker \(home.jid) \(node): items current=Jule",
                    "f worker \(home.jid) urn:durable-handlers:test:unknown: not found",
                ])
            let endings = try home.store.texts("SELECT name FROM ending ORDER BY handler")
            #expect(
                endings == ["pubsub.answered", "pubsub.answered", "pubsub.answered"])
        }
    }

    @Test("P2 a node that is configured otherwise refuses, and keeps what it had")
    func preconditionNotMet() async throws {
        try await withHome(.prosody) { home in
            let account = try home.account(.startTLS)
            try await account.connect()
            let published = try Notes.Published(tag: "p").durable
            try await account.send(
                .pubsub(
                    .publish(
                        PubSubItem(id: "current", payload: nick("Jule")), on: node,
                        requiring: [.accessModel(.open)])), then: published)
            try await account.send(
                .pubsub(
                    .publish(
                        PubSubItem(id: "current", payload: nick("Julie")), on: node,
                        requiring: [.accessModel(.whitelist)])), then: published)
            try await account.send(
                .pubsub(.publish(PubSubItem(payload: nick("Juliet")), on: node)), then: published)
            try await account.send(
                .pubsub(.items(of: node, .newest(1))), then: Notes.Fetched(tag: "f").durable)
            try await home.waitForNotes(4, on: account)
            let notes = try home.notes
            #expect(notes[0] == "p main \(home.jid) \(node): published current")
            #expect(notes[1] == "p main \(home.jid) \(node): precondition not met")
            // Without an id the server chose one and told it.
            let chosen = try #require(notes[2].firstMatch(of: /published ([^ ]{2,})$/)?.output.1)
            #expect(notes[3] == "f main \(home.jid) \(node): items \(chosen)=Juliet")
        }
    }
}
