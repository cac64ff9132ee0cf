import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// Registrations with push services.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct PushTests {
    private static let service = try! JID("push.example")  // A constant that is an address.

    private static func registration(_ node: String? = "n1", secret: String = "s1") -> PushRegistration {
        PushRegistration(service: service, node: node, options: [.init("secret", secret)])
    }

    private static func enable(_ node: String?, _ secret: String) -> Element {
        Element(
            "enable", namespace: Namespaces.push, attributes: ["jid": "push.example", "node": node],
            children: [
                DataForm(
                    .submit, type: "http://jabber.org/protocol/pubsub#publish-options",
                    [.init("secret", secret)]
                ).element
            ])
    }

    private static func disable(_ node: String?) -> Element {
        Element("disable", namespace: Namespaces.push, attributes: ["jid": "push.example", "node": node])
    }

    /// What the server was asked for, in order; all of it for the own account.
    private func asked(_ rig: AccountRig, from index: Int = 0) throws -> [Element] {
        let sets = try rig.server.log.entries(from: index).filter { $0.event == .received && $0.name == "iq" }
            .compactMap(\.xml).map {
                try IQ(element: Element(parsing: $0, defaultNamespace: Namespaces.client))
            }
            .filter { $0.payload?.namespace == Namespaces.push }
        #expect(sets.allSatisfy { $0.type == .set && $0.to == nil })
        return sets.compactMap(\.payload)
    }

    private func state(_ account: Account, _ node: String? = "n1") throws -> PushState? {
        try account.store.step { try account.push.state(of: Self.service, node: node, in: $0) }
    }

    private func accepting(_ rig: AccountRig) {
        rig.serve { $0.payload?.namespace == Namespaces.push ? .success(nil) : nil }
    }

    @Test(
        "X15 a registration is enabled once a session: again after a lost one and when it changed, not after a resumption"
    )
    func enabled() async throws {
        try await withModulesRig { rig in
            accepting(rig)
            let account = try await rig.connected([PushModule()])
            let told = ModuleReader(account, PushChange.self)
            try await account.perform { try account.push.enable(Self.registration(), in: $0) }
            try await account.perform { try account.push.enable(Self.registration(), in: $0) }
            #expect(await told.next() == .enabled(Self.registration()))
            try await account.perform {
                try account.push.enable(
                    Self.registration(), then: ContactsApp.PushNoted(name: "again").durable, in: $0)
            }
            #expect(try account.store.notes("push") == ["again: done"], "the server has it already")
            try await rig.resume(account)
            #expect(try asked(rig) == [Self.enable("n1", "s1")])
            try await account.perform { try account.push.enable(Self.registration(secret: "s2"), in: $0) }
            try await account.caughtUp()
            try await rig.loseSession(account)
            try await account.perform { try account.push.enable(Self.registration(secret: "s2"), in: $0) }
            try await account.caughtUp()
            #expect(
                try asked(rig) == [Self.enable("n1", "s1"), Self.enable("n1", "s2"), Self.enable("n1", "s2")])
            #expect(try state(account) == .enabled)
        }
    }

    @Test("X15 what was asked for without a session goes once with the next one, and is not lost with it")
    func offline() async throws {
        try await withModulesRig { rig in
            accepting(rig)
            let account = try rig.account { $0.modules = [PushModule()] }
            try await account.perform { try account.push.enable(Self.registration(), in: $0) }
            try await account.perform { try account.push.enable(Self.registration(), in: $0) }
            try await account.perform { try account.push.disable(Self.service, node: "old", in: $0) }
            try await account.connect()
            try await account.caughtUp()
            #expect(try asked(rig) == [Self.enable("n1", "s1"), Self.disable("old")])
            try await eventually { try account.store.number("SELECT count(*) FROM push_removal") == 0 }
        }
    }

    @Test(
        "X15 a registration that the server refuses is reported, and asked for again in the next session only"
    )
    func refused() async throws {
        try await withModulesRig { rig in
            rig.serve { iq in
                iq.payload?.namespace == Namespaces.push ? .failure(StanzaError(.itemNotFound)) : nil
            }
            let account = try await rig.connected([PushModule()])
            let told = ModuleReader(account, PushChange.self)
            try await account.perform {
                try account.push.enable(
                    Self.registration(), then: ContactsApp.PushNoted(name: "e").durable,
                    orElse: TestApp.Abandoned(name: "e").durable, in: $0)
            }
            #expect(await told.next() == .notEnabled(Self.registration(), StanzaError(.itemNotFound)))
            #expect(try account.store.notes("push") == ["e: refused(condition: \"item-not-found\")"])
            #expect(try state(account) == .refused(StanzaError(.itemNotFound)))
            try await rig.resume(account)
            #expect(try asked(rig).count == 1)
            accepting(rig)
            try await rig.loseSession(account)
            #expect(try asked(rig).count == 2)
            #expect(try state(account) == .enabled)
            #expect(try account.store.notes("abandoned") == [])
        }
    }

    @Test("X15 with a lost session handlers end once, and what was asked is asked again once")
    func lost() async throws {
        try await withModulesRig { rig in
            rig.server.setScript { element, _ in
                element.firstElement?.namespace == Namespaces.push ? .drop : .pass
            }
            let account = try await rig.connected([PushModule()])
            try await account.perform {
                try account.push.enable(
                    Self.registration(), then: ContactsApp.PushNoted(name: "e").durable,
                    orElse: TestApp.Abandoned(name: "e").durable, in: $0)
            }
            try await account.perform {
                try account.push.disable(
                    Self.service, node: "n0", then: ContactsApp.PushNoted(name: "d").durable,
                    orElse: TestApp.Abandoned(name: "d").durable, in: $0)
            }
            try await account.caughtUp()
            accepting(rig)
            let mark = rig.server.log.count
            try await rig.loseSession(account)
            #expect(try account.store.notes("abandoned") == ["e: session-lost", "d: session-lost"])
            #expect(try asked(rig, from: mark) == [Self.disable("n0"), Self.enable("n1", "s1")])
            try await rig.loseSession(account)
            #expect(
                try asked(rig, from: mark) == [
                    Self.disable("n0"), Self.enable("n1", "s1"), Self.enable("n1", "s1"),
                ])
            #expect(try account.store.notes("push") == [])
        }
    }

    @Test("X15 one node is disabled, or all of a service")
    func disabled() async throws {
        try await withModulesRig { rig in
            accepting(rig)
            let account = try await rig.connected([PushModule()])
            for node in ["n1", "n2", "n3"] {
                try await account.perform { try account.push.enable(Self.registration(node), in: $0) }
            }
            let other = PushRegistration(service: try JID("other.example"), node: nil)
            try await account.perform { try account.push.enable(other, in: $0) }
            try await account.perform {
                try account.push.disable(
                    Self.service, node: "n2", then: ContactsApp.PushNoted(name: "n2").durable, in: $0)
            }
            try await account.caughtUp()
            #expect(try state(account, "n2") == nil)
            #expect(try state(account, "n3") == .enabled)
            try await account.perform { try account.push.disable(Self.service, node: nil, in: $0) }
            try await account.caughtUp()
            let left = try account.store.step { try account.push.registrations(in: $0) }
            #expect(left == [other])
            #expect(
                try asked(rig).suffix(3) == [
                    Element("enable", namespace: Namespaces.push, attributes: ["jid": "other.example"]),
                    Self.disable("n2"), Self.disable(nil),
                ])
            #expect(try account.store.notes("push") == ["n2: done"])
        }
    }

    // MARK: Revocation

    private func revoke(
        _ rig: AccountRig, from sender: String, node: String? = "n1", jid: String = "alice@localhost",
        _ affiliation: String = "none"
    ) {
        let child = Element(
            "affiliation", namespace: Namespaces.pubsub, attributes: ["jid": jid, "affiliation": affiliation])
        let pubsub = Element(
            "pubsub", namespace: Namespaces.pubsub, attributes: ["node": node], children: [child])
        var message = Message(to: AccountRig.alice, type: .normal, children: [pubsub]).element
        message["from"] = ForeignText(sender)
        rig.server.send(message, to: .jid(AccountRig.alice))
    }

    @Test("X15 the service revokes its own registration, which is then disabled; listeners do not see it")
    func revoked() async throws {
        try await withModulesRig { rig in
            accepting(rig)
            let account = try await rig.connected([PushModule()])
            try await account.listen()
            try await account.perform { try account.push.enable(Self.registration(), in: $0) }
            try await account.perform { try account.push.enable(Self.registration("n2"), in: $0) }
            try await account.caughtUp()
            let told = ModuleReader(account, PushChange.self)
            revoke(rig, from: "push.example")
            #expect(await told.next() == .revoked(Self.registration()))
            try await account.caughtUp()
            #expect(try state(account) == nil)
            #expect(try state(account, "n2") == .enabled)
            #expect(try asked(rig).last == Self.disable("n1"))
            #expect(try account.store.notes("message") == [])
        }
    }

    @Test("X15 a revocation by anybody else, of somebody else, or of something else changes nothing")
    func strangers() async throws {
        try await withModulesRig { rig in
            accepting(rig)
            let account = try await rig.connected([PushModule()])
            try await account.perform { try account.push.enable(Self.registration(), in: $0) }
            try await account.caughtUp()
            let mark = rig.server.log.count
            for sender in [
                "evil.example", "user@push.example", "push.example/x", "alice@localhost", "localhost",
            ] {
                revoke(rig, from: sender)
            }
            revoke(rig, from: "push.example", node: "other")
            revoke(rig, from: "push.example", node: nil)
            revoke(rig, from: "push.example", jid: "bob@localhost")
            revoke(rig, from: "push.example", "publish-only")
            try await account.caughtUp()
            #expect(try state(account) == .enabled)
            #expect(try asked(rig, from: mark) == [])
        }
    }
}
