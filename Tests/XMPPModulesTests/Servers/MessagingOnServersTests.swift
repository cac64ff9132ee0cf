import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import Testing
import XMPPCore
import TestServers

@testable import XMPPAccount
@testable import XMPPModules

extension RealServerTests {
    /// Messages, receipts, copies, archives and what clients say of themselves, with an independent messenger.
    @Suite struct MessagingOnServersTests {
        private func account(
            _ home: RealHome, port: UInt16? = nil, modules: [any AccountModule] = .standard
        ) async throws -> Account {
            let account = try home.account(port: port) { $0.modules = modules }
            try await account.listen()
            try await account.connect()
            try await account.caughtUp()
            return account
        }

        private func delivery(_ account: Account, _ id: String) async throws -> Delivery? {
            try await account.perform { try account.chat.delivery(of: id, in: $0) }
        }

        @Test(
            "X6 a message that the server ends the stream for is taken out; those around it arrive",
            arguments: ServerKind.allCases)
        func tooLarge(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let peer = try home.messenger()
                defer { peer.close() }
                // Prosody says how much it takes only after a login without SASL2.
                let account = try home.account { $0.usesExtensibleLogin = kind != .prosody }
                let events = EventReader(account)
                let large = String(repeating: "x", count: 1_200_000)
                for (id, body) in [("before", "one"), ("large", large), ("after", "two")] {
                    try await account.send(
                        Message(to: try peer.jid, id: id, body: body),
                        acknowledged: TestApp.Acknowledged(name: id).durable
                            .orElse(TestApp.Abandoned(name: id).durable))
                }
                try await account.connect()
                await events.until("refused large")
                try await eventually { try home.store.notes("acknowledged").contains("after: after") }
                #expect(try home.store.notes("abandoned") == ["large: stanza-too-large"])
                try await eventually { try home.store.number("SELECT count(*) FROM outbox") == 0 }
                // What the server has acknowledged it may still have to deliver; and what went with a session that the
                // large one ended may come a second time, under the same id.
                try await eventually("both messages") { try Set(peer.bodies("message")) == ["one", "two"] }
                guard kind == .prosody else { return }
                // By now it has said how much it takes.
                let error = await errorOf { try await account.send(Message(to: home.jid, body: large)) }
                #expect((error as? AccountError)?.code == .stanzaTooLarge)
            }
        }

        @Test("X12 receipts go both ways with an independent messenger", arguments: ServerKind.allCases)
        func receipts(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let account = try await account(home)
                let peer = try home.messenger()
                defer { peer.close() }
                try await account.perform {
                    try account.chat.send(Message(to: peer.account, id: "m1", body: "wherefore"), in: $0)
                }
                try await eventually {
                    try home.store.number("SELECT count(delivered_at) FROM delivery") == 1
                }
                let delivered = try #require(try await delivery(account, "m1"))
                #expect(delivered.acknowledgedAt != nil)
                #expect(try peer.bodies("message") == ["wherefore"])
                try peer.tell(
                    "send", ["to": home.jid.description, "body": "thou", "id": "p1", "receipt": true])
                try await eventually("the receipt") { try peer.bodies("receipt").contains("p1") }
                #expect(try home.store.notes("message") == ["p1: thou"])
                #expect(try peer.ask("mam", as: [String].self) == ["wherefore", "thou"])
                _ = try await account.perform {
                    try account.chat.send(.composing, to: try peer.jid, in: $0)
                }
                try await eventually("the state") { try peer.bodies("state").contains("composing") }
            }
        }

        @Test(
            "X12 what another client of the account receives and sends comes as copies",
            arguments: ServerKind.allCases)
        func carbons(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let account = try await account(home)
                let peer = try home.messenger()
                let other = try home.messenger(ofThisAccount: true)
                defer {
                    peer.close()
                    other.close()
                }
                try other.tell("carbons")
                // To the other client's full address, so that only a copy can reach this one.
                try peer.tell("send", ["to": try other.jid, "body": "for the other", "id": "p1"])
                try await eventually("the received copy") {
                    try home.store.notes("message").contains("p1: for the other")
                }
                try other.tell("send", ["to": try peer.jid, "body": "from the other", "id": "o1"])
                try await eventually("the sent copy") {
                    try home.store.notes("message").contains("o1: from the other")
                }
                try await account.perform {
                    try account.chat.send(Message(to: peer.account, id: "m1", body: "from here"), in: $0)
                }
                try await eventually("our copy") { try other.bodies("carbon_sent").contains("from here") }
                try await account.caughtUp()
                #expect(try home.store.notes("message").count == 2)
            }
        }

        @Test(
            "X13 what was said while nobody was connected comes from the archive, once, in order, over kills of the line",
            arguments: ServerKind.allCases)
        func archive(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let proxy = try LoopbackProxy(to: home.port(.directTLS))
                let modules: [any AccountModule] = [
                    DiscoModule(), CarbonsModule(), ChatModule(), ArchiveModule(pageSize: 20, history: nil),
                ]
                let first = try await account(home, port: proxy.port, modules: modules)
                let peer = try home.messenger()
                defer { peer.close() }
                try peer.tell("send", ["to": home.jid.description, "body": "live", "id": "live"])
                try await eventually { try home.store.notes("message").count == 1 }
                try await first.perform {
                    try first.chat.send(Message(to: peer.account, id: "mine", body: "from here"), in: $0)
                }
                try await first.caughtUp()
                // Not to be resumed: the next session starts after a log-out.
                try await first.logOut()
                await first.close()
                try peer.tell("flood", ["to": home.jid.description, "count": 150, "prefix": "a"])
                let second = try home.account(port: proxy.port) { $0.modules = modules }
                try await second.connect()
                for _ in 0..<4 {
                    try await Task.sleep(for: .milliseconds(30))
                    proxy.cut()
                }
                try await eventually("the archive") { try home.store.notes("message").count >= 151 }
                try await eventually("the end") {
                    try home.store.number("SELECT count(*) FROM archive WHERE state = 0") == 1
                }
                let expected = ["live: live"] + (0..<150).map { "a-\($0): a \($0)" }
                let notes = try home.store.notes("message")
                #expect(notes == expected, "each once, in order, and what was sent from here not at all")
            }
        }

        @Test(
            "X13 what is not handled when the session ends comes again, from wherever the server keeps it",
            arguments: ServerKind.allCases)
        func deferred(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let stranger = try RealHome(modulesOn: kind)
                let sender = try await account(stranger)
                let first = try home.account { $0.modules = .standard }
                try await first.listen(as: "test", TestApp.Deferring().durable)
                try await first.connect()
                try await first.caughtUp()
                for (id, body) in [("m1", "now"), ("m2", "later"), ("m3", "now")] {
                    try await sender.send(Message(to: home.jid, id: id, body: body))
                }
                try await eventually { try home.store.notes("message").count == 3 }
                try await first.logOut()
                await first.close()
                // One that is not handled comes as often as there are copies of it: live, and out of the archive.
                let before = try home.store.notes("message").count
                let second = try home.account { $0.modules = .standard }
                try await second.connect()
                try await eventually("the message again") { try home.store.notes("message").count > before }
                try await second.caughtUp()
                let notes = try home.store.notes("message")
                #expect(notes.filter { $0 != "m2: later" } == ["m1: now", "m3: now"])
                await stranger.close()
            }
        }

        @Test(
            "X12 a stranger on the same server forges copies, archives, ids and pushes: nothing changes",
            arguments: ServerKind.allCases)
        func stranger(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let victim = try await account(home)
                let stranger = try RealHome(modulesOn: kind)
                let forger = try await account(stranger)
                let full = try #require(
                    try await victim.perform { try victim.sessions.load(in: $0).fullJID })
                let inner = Message(
                    to: home.jid, from: try JID("friend@example.org/a"), id: "x", body: "forged")
                let forwarded = Element(
                    "forwarded", namespace: Namespaces.forward, children: [inner.element])
                let query = try await victim.perform { step in
                    try step.first("SELECT query FROM archive_query") { (row) throws(HandlerError) in
                        row.text(0)
                    }
                }
                for child in [
                    Element("received", namespace: Namespaces.carbons, children: [forwarded]),
                    Element("sent", namespace: Namespaces.carbons, children: [forwarded]),
                    Element(
                        "result", namespace: Namespaces.mam,
                        attributes: ["queryid": query ?? "q", "id": "1"],
                        children: [forwarded]),
                ] {
                    try await forger.send(Message(to: full, children: [child]))
                }
                let id = Element(
                    "stanza-id", namespace: Namespaces.sid,
                    attributes: ["by": home.jid.description, "id": "9999999999999999"])
                try await forger.send(Message(to: home.jid, id: "m1", body: "honest", children: [id]))
                let item = Element(
                    "item", namespace: Namespaces.roster,
                    attributes: ["jid": "friend@example.org", "subscription": "both"])
                let push = Element("query", namespace: Namespaces.roster, children: [item])
                await #expect(throws: StanzaError.self) {
                    _ = try await forger.request(
                        .iq(IQ(type: .set, to: full, id: StanzaID.random(), payload: push)))
                }
                try await eventually { try home.store.notes("message").count == 1 }
                try await victim.caughtUp()
                #expect(try home.store.notes("message") == ["m1: honest"])
                #expect(try home.store.number("SELECT count(*) FROM roster_item") == 0)
                #expect(
                    try home.store.number("SELECT count(*) FROM archive WHERE last_id = '9999999999999999'")
                        == 0, "the server took the forged id out")
                await stranger.close()
            }
        }

        @Test("X11 clients find out what the other one understands", arguments: ServerKind.allCases)
        func disco(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let modules: [any AccountModule] = [DiscoModule(software: ("Verona", "1.0")), ChatModule()]
                let account = try await account(home, modules: modules)
                let peer = try home.messenger()
                defer { peer.close() }
                let own = try await account.perform { step in
                    try step.first("SELECT full_jid FROM session") {
                        (row) throws(HandlerError) in row.text(0)
                    } ?? ""
                }
                let features = try peer.ask("info", ["jid": own], as: [String].self)
                #expect(features.contains(Namespaces.receipts))
                #expect(try peer.ask("version", ["jid": own], as: String.self) == "Verona 1.0")
                let info = try await account.request(.discoInfo(of: try peer.jid))
                #expect(info.features.contains(Namespaces.receipts))
                let server = try await account.request(.discoInfo(of: home.jid.domainJID))
                #expect(server.identities.contains { $0.category == "server" && $0.type == "im" })
                let items = try await account.request(.discoItems(of: home.jid.domainJID))
                #expect(items.contains { $0.jid.description == "conference.localhost" })
                try peer.tell("presence", ["to": own])
                let jid = try peer.jid
                try await eventually("what the presence said") {
                    try await account.perform { try account.knownInfo(of: jid, in: $0) } != nil
                }
                let known = try await account.perform { try account.knownInfo(of: jid, in: $0) }
                #expect(known?.features == info.features)
            }
        }

        @Test(
            "X15 the server learns that nobody looks, on a new stream and on a resumed one",
            arguments: ServerKind.allCases)
        func clientState(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let proxy = try LoopbackProxy(to: home.port(.directTLS))
                let account = try await account(home, port: proxy.port)
                let events = EventReader(account)
                account.clientState = .inactive
                try await account.caughtUp()
                try await account.caughtUp()
                #expect(home.log.holds("<inactive xmlns='urn:xmpp:csi:0'/>"))
                proxy.cut()
                await events.until("resumed")
                try await account.caughtUp()
                account.clientState = .active
                try await account.caughtUp()
                try await account.caughtUp()
                #expect(
                    home.log.holds("<active xmlns='urn:xmpp:csi:0'/>"), "it was told before that nobody looks"
                )
            }
        }
    }
}
