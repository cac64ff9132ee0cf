import Handlers
import PubSub
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// What the account's presence says that it wants, while standing handlers come and go.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct NotifyTests {
    private let nicks = UserNick.node

    private func listen(
        _ account: Account, to node: String = UserNick.node, of publisher: JID? = nil, as key: String = "test"
    ) async throws {
        try await account.perform {
            try account.pubsub.listen(
                to: node, of: publisher, as: key, EventApp.Seen(tag: "a").durable, in: $0)
        }
    }

    @Test("P5 a handler for a node is announced with presence, and its end too; what changes nothing is not")
    func announced() async throws {
        try await withEventRig { rig in
            let account = try await rig.connected()
            try await listen(account)
            #expect(try await rig.features(account).contains(nicks + "+notify"))
            // A second one for the node, the same one again, and one of a service, which one subscribes to.
            try await listen(account, as: "second")
            try await listen(account)
            try await listen(account, to: "urn:x:news", of: JID("pubsub.localhost"))
            try await account.perform { try account.pubsub.stopListening(to: nicks, as: "test", in: $0) }
            try await account.caughtUp()
            #expect(try rig.digests.count == 2)
            #expect(try await rig.features(account).contains("urn:x:news+notify") == false)
            try await account.perform { try account.pubsub.stopListening(to: nicks, as: "second", in: $0) }
            try await account.caughtUp()
            let digests = try rig.digests
            try #require(digests.count == 3)
            #expect(digests.first == digests.last && digests[0] != digests[1])
            #expect(try await rig.features(account).contains { $0.hasSuffix("+notify") } == false)
        }
    }

    @Test("P5 a node of one user is announced as one of all is")
    func ofOneUser() async throws {
        try await withEventRig { rig in
            let account = try await rig.connected()
            try await listen(account, of: EventRig.juliet.bare)
            #expect(try await rig.features(account).contains(nicks + "+notify"))
        }
    }

    @Test(
        "P5 what the program said with its presence is said again; an account that is not available stays so")
    func keepsPresence() async throws {
        try await withEventRig { rig in
            let account = try await rig.connected()
            let away = Element("show", namespace: Namespaces.client, text: "away")
            try await account.perform { try account.send(Presence(children: [away]), in: $0) }
            // Presence for one address alone is not for all.
            let directed = Presence(to: EventRig.juliet, children: [away])
            try await account.perform { try account.send(directed, in: $0) }
            try await listen(account)
            try await account.caughtUp()
            var last = try #require(try rig.presence.last)
            #expect(last["to"] == nil)
            #expect(last.child("show", Namespaces.client)?.text == "away")
            #expect(last.child("c", Namespaces.caps) != nil)
            try await account.perform { try account.send(Presence(type: .unavailable), in: $0) }
            try await account.perform { try account.pubsub.stopListening(to: nicks, as: "test", in: $0) }
            try await account.caughtUp()
            last = try #require(try rig.presence.last)
            #expect(last["type"] == "unavailable")
        }
    }

    @Test("P5 a handler that comes while there is no stream is announced when the session is resumed, once")
    func whileAway() async throws {
        try await withEventRig { rig in
            let first = try await rig.connected()
            await first.close()
            let second = try rig.account()
            try await listen(second)
            try await listen(second, to: "urn:x:other")
            #expect(try rig.presence.count == 1)
            try await second.connect()
            try await second.caughtUp()
            #expect(try rig.presence.count == 2)
            #expect(try rig.digests.count == 2)
            #expect(try await rig.features(second).isSuperset(of: ["\(nicks)+notify", "urn:x:other+notify"]))
            // Nothing has changed for the third one.
            await second.close()
            let third = try rig.account()
            try await listen(third)
            try await third.connect()
            try await third.caughtUp()
            #expect(try rig.presence.count == 2)
        }
    }

    @Test("P5 a new session announces what is stored, with its first presence")
    func newSession() async throws {
        try await withEventRig { rig in
            let first = try await rig.connected()
            await first.close()
            rig.server.expireSessions()
            let second = try rig.account()
            try await listen(second)
            try await second.connect()
            try await second.caughtUp()
            #expect(try rig.presence.count == 2)
            #expect(try rig.digests.first != rig.digests.last)
        }
    }

    // MARK: Events on a stream

    @Test("P4 the worker finds the standing handler and runs it in the step that counts the event")
    func worker() async throws {
        try await withEventRig { rig in
            let main = try await rig.connected()
            try await listen(main)
            await main.close()
            try rig.sendNick("Jule", id: "e1")
            let worker = try await rig.connected(.worker)
            #expect(
                try rig.notes(worker) == ["a juliet@localhost \(nicks): items current=Jule"])
            let handled = try worker.store.number("SELECT received FROM session")
            #expect(handled == 1)
        }
    }

    @Test("P4 an event that comes again after a resumption is taken once")
    func againAfterResumption() async throws {
        try await withEventRig { rig in
            let account = try await rig.connected()
            try await listen(account)
            for number in 0..<5 { try rig.sendNick("n\(number)", id: "e\(number)") }
            rig.server.dropConnections(.reset)
            for number in 5..<10 { try rig.sendNick("n\(number)", id: "e\(number)") }
            try await eventually("ten events") { try rig.notes(account).count >= 10 }
            try await account.caughtUp()
            #expect(
                try rig.notes(account)
                    == (0..<10).map { "a juliet@localhost \(nicks): items current=n\($0)" })
        }
    }
}
