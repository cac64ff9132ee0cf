import AccountTestSupport
import Foundation
import Handlers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers

/// An independent client that is a contact; see contacts_peer.py.
extension SlixmppPeer {
    /// Sends a step of a subscription.
    func send(_ step: String, to jid: JID) throws { try tell("step", ["to": jid, "type": step]) }

    /// The types of presence that came from the account's bare address or its resources, in order.
    func presence(of jid: JID) throws -> [String] {
        try records("presence").filter { try JID($0.from ?? "").bare == jid }.compactMap(\.type)
    }
}

extension RealHome {
    func contact() throws -> SlixmppPeer { try scene.peer(PackageResources.contacts_peer_py) }
}

extension RealServerTests {
    /// Roster, blocking, push and cards with servers and a client that this project did not write.
    @Suite struct ContactsOnServersTests {
        private static let modules: [any AccountModule] = [RosterModule(), BlockingModule(), PushModule()]

        private func connect(_ home: RealHome) async throws -> Account {
            let account = try home.account { $0.modules = Self.modules }
            try await account.connect()
            try await account.caughtUp()
            return account
        }

        private func item(_ account: Account, _ jid: JID) throws -> RosterItem? {
            try account.store.step { try account.roster.item(for: jid, in: $0) }
        }

        private func eventuallyItem(
            _ account: Account, _ jid: JID, _ what: String,
            _ matches: @escaping @Sendable (RosterItem?) -> Bool
        ) async throws {
            try await eventually("\(what)") { matches(try self.item(account, jid)) }
        }

        @Test("X10 subscriptions in both directions, presence, and their end", arguments: ServerKind.allCases)
        func subscriptions(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let account = try await connect(home)
                let peer = try home.contact()
                defer { peer.close() }
                // The account asks, the peer agrees.
                try await account.perform {
                    try account.roster.subscribe(
                        to: peer.account, then: ContactsApp.Decided(name: "d").durable,
                        orElse: TestApp.Abandoned(name: "d").durable, in: $0)
                }
                try await eventually("the question") { try peer.presence(of: home.jid).contains("subscribe") }
                try await eventuallyItem(account, peer.account, "asking") { $0?.isAsking == true }
                #expect(try home.store.notes("decided") == [])
                try peer.send("subscribed", to: home.jid)
                try await eventuallyItem(account, peer.account, "to") { $0?.subscription == .to }
                #expect(try home.store.notes("decided") == ["d: approved by \(peer.account)"])
                try peer.tell("show", ["show": "away", "status": "reading"])
                try await eventually("the peer's presence") {
                    try account.store.step { step in
                        try account.roster.presence(of: peer.account, in: step).map { [$0.show, $0.status] }
                    } == [["away", "reading"]]
                }
                // The peer asks, the account agrees.
                try peer.send("subscribe", to: home.jid)
                try await eventually("the request") {
                    try account.store.step { try account.roster.requests(in: $0).map(\.jid) } == [
                        peer.account
                    ]
                }
                try await account.perform { try account.roster.approve(peer.account, in: $0) }
                try await eventuallyItem(account, peer.account, "both") { $0?.subscription == .both }
                try await eventually("the account's presence") {
                    try peer.presence(of: home.jid).suffix(2) == ["subscribed", "available"]
                }
                #expect(try account.store.step { try account.roster.requests(in: $0) } == [])
                // Both end it.
                try await account.perform { try account.roster.deny(peer.account, in: $0) }
                try await eventuallyItem(account, peer.account, "to again") { $0?.subscription == .to }
                try await account.perform { try account.roster.unsubscribe(from: peer.account, in: $0) }
                try await eventuallyItem(account, peer.account, "none") {
                    $0?.subscription == RosterItem.Subscription.none
                }
                try await eventually("the end") { try peer.presence(of: home.jid).contains("unsubscribe") }
                #expect(
                    try account.store.step { try account.roster.presence(of: peer.account, in: $0) } == [])
                #expect(try home.store.notes("abandoned") == [])
            }
        }

        @Test("X10 a refused subscription calls the stored handler", arguments: ServerKind.allCases)
        func refused(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let account = try await connect(home)
                let peer = try home.contact()
                defer { peer.close() }
                try await account.perform {
                    try account.roster.subscribe(
                        to: peer.account, then: ContactsApp.Decided(name: "d").durable, in: $0)
                }
                try await eventually("the question") { try peer.presence(of: home.jid).contains("subscribe") }
                try peer.send("unsubscribed", to: home.jid)
                try await eventually("the decision") {
                    try home.store.notes("decided") == ["d: denied by \(peer.account)"]
                }
            }
        }

        @Test(
            "X10 names, groups and removal; over sessions the version saves the roster",
            arguments: ServerKind.allCases)
        func items(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                var account = try await connect(home)
                let (juliet, nurse) = (
                    try JID("juliet@\(RealServers.domain)"), try JID("nurse@\(RealServers.domain)")
                )
                try await account.request(
                    .roster.set(RosterItem(juliet, name: "Juliet & Co <3", groups: ["Verona", "Friends"])))
                try await account.request(.roster.set(RosterItem(nurse)))
                try await eventuallyItem(account, nurse, "the nurse") { $0 != nil }
                let first = try #require(try item(account, juliet))
                #expect(first.name == "Juliet & Co <3")
                #expect(Set(first.groups) == ["Verona", "Friends"])
                try await account.request(.roster.set(RosterItem(juliet, name: "Jules", groups: ["Verona"])))
                try await eventuallyItem(account, juliet, "the new name") {
                    $0?.name == "Jules" && $0?.groups == ["Verona"]
                }
                let version = try #require(try account.store.step { try account.roster.version(in: $0) })
                try await account.logOut()
                await account.close()
                // Another process, another session: nothing has changed, and the server says so with an empty result. A
                // roster sent whole would bring the name back.
                try home.store.change("UPDATE roster_item SET name = 'only here' WHERE name = 'Jules'")
                account = try await connect(home)
                #expect(try item(account, juliet)?.name == "only here")
                #expect(try home.sessions == [0, 2])
                #expect(try account.store.step { try account.roster.version(in: $0) } == version)
                #expect(
                    try account.store.step { try account.roster.items(in: $0).map(\.jid) } == [juliet, nurse])
                try await account.request(.roster.remove(nurse))
                try await eventuallyItem(account, nurse, "the removal") { $0 == nil }
                // ejabberd finds nothing wrong with removing nobody.
                if kind == .prosody {
                    let error =
                        await errorOf { try await account.request(.roster.remove(nurse)) } as? StanzaError
                    #expect(error?.condition == .itemNotFound)
                }
                try await account.logOut()
                await account.close()
                // What another client changed meanwhile comes with the next session.
                let other = try RealHome(modulesOn: kind, as: home)
                let changed = try await connect(other)
                try await changed.request(.roster.set(RosterItem(juliet, name: "Juliet")))
                try await changed.caughtUp()
                await other.close()
                account = try await connect(home)
                try await eventuallyItem(account, juliet, "the change") {
                    $0?.name == "Juliet" && $0?.groups == []
                }
            }
        }

        @Test("X15 blocking, and being blocked", arguments: ServerKind.allCases)
        func blocking(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let account = try await connect(home)
                try await account.listen()
                let peer = try home.contact()
                defer { peer.close() }
                try peer.tell("say", ["to": home.jid, "body": "one"])
                try await eventually("the first message") { try home.store.notes("message").count == 1 }
                try await account.request(.blocking.block([peer.account]))
                try await eventually("the push") {
                    try account.store.step { try account.blocking.list(in: $0) } == [peer.account]
                }
                // Servers may tell the sender or not; nothing arrives, or it would be there before the third.
                try peer.tell("say", ["to": home.jid, "body": "two"])
                try await account.request(.blocking.unblockAll)
                try await eventually("the second push") {
                    try account.store.step { try account.blocking.list(in: $0) } == []
                }
                try peer.tell("say", ["to": home.jid, "body": "three"])
                try await eventually("the third message") { try home.store.notes("message").count == 2 }
                #expect(
                    try home.store.notes("message").map { $0.split(separator: " ").last } == ["one", "three"])
                try peer.tell("block", ["jid": home.jid])
                try await account.send(Message(to: peer.account, id: "refused", body: "hello"))
                try await account.caughtUp()
                await #expect(throws: StanzaError.self) {
                    try await account.ping(peer.account.with(resource: "peer"))
                }
                #expect(try !peer.records("received").contains { $0.body == "hello" })
                try peer.tell("unblock", ["jid": home.jid])
                #expect(try await account.ping(peer.account.with(resource: "peer")) > .zero)
            }
        }

        @Test(
            "X15 the list of blocked addresses is there in the next session", arguments: ServerKind.allCases)
        func blocklist(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                var account = try await connect(home)
                let jids = try ["evil.example", "iago@shakespeare.example"].map { try JID($0) }
                try await account.request(.blocking.block(jids))
                try await account.logOut()
                await account.close()
                try home.store.change("DELETE FROM blocked")
                account = try await connect(home)
                #expect(try account.store.step { try account.blocking.list(in: $0) } == jids)
                try await account.request(.blocking.unblock([jids[0]]))
                try await eventually("the push") {
                    try account.store.step { try account.blocking.list(in: $0) } == [jids[1]]
                }
            }
        }

        @Test(
            "X15 a push service is enabled in each new session and disabled", arguments: ServerKind.allCases)
        func push(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                var account = try await connect(home)
                let service = try JID("pubsub.\(RealServers.domain)")
                let registration = PushRegistration(
                    service: service, node: "node", options: [.init("secret", "s3cr3t")])
                try await account.perform { [account] step in
                    try account.push.enable(
                        registration, then: ContactsApp.PushNoted(name: "e").durable, in: step)
                }
                try await eventually("the answer") { try home.store.notes("push") == ["e: done"] }
                try await account.logOut()
                await account.close()
                account = try await connect(home)
                try await eventually("the second answer") {
                    try account.store.step { try account.push.state(of: service, node: "node", in: $0) }
                        == .enabled
                }
                try await account.perform { [account] step in
                    try account.push.disable(
                        service, node: "node", then: ContactsApp.PushNoted(name: "d").durable, in: step)
                }
                try await eventually("the end") { try home.store.notes("push") == ["e: done", "d: done"] }
                #expect(try home.store.number("SELECT count(*) FROM push_removal") == 0)
            }
        }

        @Test("X15 a peer's card with its picture, and none", arguments: ServerKind.allCases)
        func cards(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let account = try await connect(home)
                let peer = try home.contact()
                defer { peer.close() }
                #expect(try await account.request(.vcard(of: peer.account)) == nil)
                #expect(try await account.request(.vcard(of: nil)) == nil)
                // The smallest picture there is: servers look at what they are given.
                let picture =
                    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
                try peer.tell(
                    "card", ["name": "Juliet", "nick": "Jules", "type": "image/png", "photo": picture])
                let card = try #require(try await account.request(.vcard(of: peer.account)))
                #expect(card.name == "Juliet")
                #expect(card.nickname == "Jules")
                #expect(card.photo?.type == "image/png")
                #expect(card.photo?.bytes == [UInt8](try #require(Data(base64Encoded: picture))))
                #expect(try await account.ping(nil) > .zero)
            }
        }
    }
}
