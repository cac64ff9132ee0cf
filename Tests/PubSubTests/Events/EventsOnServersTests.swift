import Handlers
import PubSub
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import TestServers

/// Events with servers and a publisher that this project did not write.
@Suite(.ownThread, .realServers, .serialized, .timeLimit(.minutes(4))) struct EventsOnServersTests {
    @Test(
        "P5 a contact's node is announced, its events come, the worker runs the handler, and the last item of a new session changes nothing",
        arguments: ServerKind.allCases)
    func contact(kind: ServerKind) async throws {
        try await withEventHome(kind) { home in
            let main = try home.account()
            try await main.perform {
                try main.pubsub.listen(
                    to: UserNick.self, as: "test", EventApp.NickSeen(tag: "n").durable, in: $0)
            }
            try await main.connect()
            try await home.settle(main)
            try home.publish("Jule")
            try await home.waitForNotes(1, main)
            // The server tells the same again; then another one.
            try home.publish("Jule")
            try home.publish("Julie")
            try await home.waitForNotes(2, main)
            try await main.suspend()
            await main.close()

            try home.publish("Juliet")
            let worker = try home.account(.worker)
            try await worker.connect()
            try await home.waitForNotes(3, worker)
            let resumed = try worker.store.number("SELECT resumed_count FROM session")
            #expect(resumed == 1)

            // A new session: the server shows the last item, which is known.
            try await worker.logOut()
            try await worker.connect()
            try await home.settle(worker)
            try home.tell("retract", UserNick.node, ["id": "current"])
            try await home.waitForNotes(4, worker)
            try await worker.caughtUp()
            let names = ["Jule", "Julie", "Juliet"].map {
                "n \(home.juliet): nicks [\"\($0)\"], unreadable []"
            }
            #expect(
                try home.notes(worker) == names + ["n \(home.juliet): retracted [\"current\"]"])
        }
    }

    @Test(
        "P5 a handler that comes on a running stream gets events (from Prosody the last item at once), and none when it is gone",
        arguments: ServerKind.allCases)
    func comesAndGoes(kind: ServerKind) async throws {
        try await withEventHome(kind) { home in
            try home.publish("Jule")
            let account = try home.account()
            try await account.listen(as: "messages", EventApp.Message().durable)
            try await account.connect()
            try await home.settle(account)
            #expect(try home.notes(account).isEmpty)
            try await account.perform {
                try account.pubsub.listen(
                    to: UserNick.self, as: "test", EventApp.NickSeen(tag: "n").durable, in: $0)
            }
            try await home.settle(account)
            // ejabberd shows the last item to contacts when they log in only.
            if kind == .ejabberd { try home.publish("Jule") }
            try await home.waitForNotes(1, account)
            try home.tell("retract", UserNick.node, ["id": "current"])
            try await home.waitForNotes(2, account)
            #expect(
                try home.notes(account) == [
                    "n \(home.juliet): nicks [\"Jule\"], unreadable []",
                    "n \(home.juliet): retracted [\"current\"]",
                ])
            try await account.perform {
                try account.pubsub.stopListening(to: UserNick.node, as: "test", in: $0)
            }
            try await home.settle(account)
            try home.publish("Julie")
            try await home.settle(account)
            #expect(try home.notes(account).filter { $0.hasPrefix("n ") }.count == 2)
        }
    }

    @Test(
        "P5 what the account publishes comes back as its own event, and from ejabberd to its contacts",
        arguments: ServerKind.allCases)
    func own(kind: ServerKind) async throws {
        try await withEventHome(kind) { home in
            let account = try home.account()
            try await account.perform {
                try account.pubsub.listen(
                    to: UserNick.node, as: "test", EventApp.Seen(tag: "e").durable, in: $0)
            }
            try await account.perform {
                try account.pubsub.listen(
                    to: EventApp.Mood.self, of: home.jid, as: "moods", EventApp.MoodSeen().durable, in: $0)
            }
            try await account.connect()
            try await home.settle(account)
            try await account.send(.pubsub(.publish(UserNick("Romeo"))), then: EventApp.Sent().durable)
            try await account.send(
                .pubsub(.publish(EventApp.Mood(text: "in love", since: 9))), then: EventApp.Sent().durable)
            try await home.waitForNotes(4, account)
            #expect(
                try Set(home.notes(account)) == [
                    "published \(UserNick.node) current",
                    "e \(home.jid) \(UserNick.node): items current=Romeo own",
                    "published \(EventApp.Mood.node) current", "mood of \(home.jid): in love 9",
                ])
            // Prosody takes no note of what a contact wants whose presence was there before the account's own.
            if kind == .prosody { return }
            try await eventually("the contact's event") { try home.seenByPeer() == ["Romeo"] }
        }
    }

    @Test(
        "P4 a purge and a deletion arrive as what they are; from ejabberd if the node is subscribed to",
        arguments: ServerKind.allCases)
    func ends(kind: ServerKind) async throws {
        try await withEventHome(kind) { home in
            try home.publish("Jule")
            try home.tell("tell_ends", UserNick.node)
            let account = try home.account()
            try await account.perform {
                try account.pubsub.listen(
                    to: UserNick.node, as: "test", EventApp.Seen(tag: "e").durable, in: $0)
            }
            try await account.connect()
            try await home.settle(account)
            // ejabberd tells those who only announce that they want a node's events nothing but items and retractions.
            if kind == .ejabberd {
                let subscribe = Element(
                    "subscribe", namespace: Namespaces.pubsub,
                    attributes: ["node": UserNick.node, "jid": home.jid.description])
                _ = try await account.request(
                    .iq(
                        IQ(
                            type: .set, to: home.juliet, id: StanzaID.random(),
                            payload: Element("pubsub", namespace: Namespaces.pubsub, children: [subscribe]))))
            }
            try home.publish("Julie")
            try home.tell("purge", UserNick.node)
            try home.tell("delete", UserNick.node)
            try await eventually("the deletion") {
                try home.notes(account).last == "e \(home.juliet) \(UserNick.node): deleted -"
            }
            let prefix = "e \(home.juliet) \(UserNick.node): "
            #expect(
                try home.notes(account).map { $0.replacing(/\ sent at \d+$/, with: "") }
                    .filter { $0 != prefix + "items current=Jule" } == [
                        prefix + "items current=Julie", prefix + "purged", prefix + "deleted -",
                    ])
        }
    }

    // Prosody 13.0.1 refuses to make a node with the access model `authorize`.
    @Test("P3 the owner is asked who may subscribe, says yes, and the subscriber gets events: ejabberd")
    func approval() async throws {
        try await withEventHome(.ejabberd) { home in
            let service = try JID("pubsub.localhost")
            let account = try home.account()
            try await account.perform {
                try account.pubsub.decideSubscriptions(
                    at: service, as: "test", EventApp.Asked(tag: "d").durable, in: $0)
            }
            try await account.connect()
            try await account.request(.pubsub(.create("club", with: [.accessModel(.authorize)]), at: service))
            try home.tell("subscribe", "club", ["service": service])
            try await home.waitForNotes(1, account)
            #expect(try home.notes(account).first?.hasPrefix("d \(service): \(home.juliet) club ") == true)
            try await eventually("the subscription") {
                try await account.request(.pubsub(.subscriptions(to: "club"), at: service))
                    .map(\.state) == [.subscribed]
            }
            let item = PubSubItem(id: "1", payload: UserNick("welcome").element)
            try await account.request(.pubsub(.publish(item, on: "club"), at: service))
            try await eventually("the subscriber's event") {
                try home.seenByPeer(at: service).contains("welcome")
            }
        }
    }
}
