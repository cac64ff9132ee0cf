import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// Subscriptions in both directions, and what is made of presence.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct SubscriptionTests {
    private static let juliet = try! JID("juliet@capulet.example")  // A constant that is an address.

    /// A push of one item.
    private func push(_ rig: AccountRig, _ subscription: String, ask: Bool = false, _ jid: JID = juliet) {
        let item = Element(
            "item", namespace: Namespaces.roster,
            attributes: [
                "jid": jid.description, "subscription": subscription, "ask": ask ? "subscribe" : nil,
            ])
        rig.push(
            StanzaID.random(), Element("query", namespace: Namespaces.roster, children: [item]))
    }

    /// What was sent to the contact, by type, in order.
    private func steps(_ rig: AccountRig, from index: Int = 0) -> [ForeignText] {
        rig.server.log.entries(from: index).filter {
            $0.event == .received && $0.peer == Self.juliet.description
        }
        .map { $0.type ?? "available" }
    }

    private func requests(_ account: Account) throws -> [SubscriptionRequest] {
        try account.store.step { try account.roster.requests(in: $0) }
    }

    // MARK: Others ask

    @Test("X24 contacts may be approved without the user being asked, strangers never")
    func approvesKnown() async throws {
        try await withModulesRig { rig in
            rig.serve { iq in
                guard iq.payload?.has(name: "query", namespace: Namespaces.roster) == true else { return nil }
                let item = Element(
                    "item", namespace: Namespaces.roster,
                    attributes: ["jid": Self.juliet.description, "subscription": "to"])
                return .success(Element("query", namespace: Namespaces.roster, children: [item]))
            }
            // What came while the module might not approve waits.
            let first = try await rig.connected([RosterModule()])
            rig.show(.subscribe, from: Self.juliet.description)
            try await first.caughtUp()
            #expect(try requests(first).count == 1)
            await first.close()
            rig.server.expireSessions()
            let account = try await rig.connected([RosterModule(approvesKnownContacts: true)])
            let told = ModuleReader(account, RosterChange.self)
            try await eventually { try requests(account).isEmpty }
            rig.show(.subscribe, from: "romeo@montague.example")
            rig.show(.subscribe, from: Self.juliet.description)
            try await account.caughtUp()
            try await account.caughtUp()
            #expect(try requests(account).map(\.jid.description) == ["romeo@montague.example"])
            #expect(steps(rig) == ["subscribed", "subscribed"])
            _ = told
        }
    }

    @Test(
        "X10 a request of somebody else's is stored until it is answered, and reported once",
        arguments: [true, false])
    func requested(isApproved: Bool) async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([RosterModule()])
            let told = ModuleReader(account, RosterChange.self)
            let words = [
                Element("status", namespace: Namespaces.client, text: "let me in"),
                Element("nick", namespace: Namespaces.nick, text: "Jules"),
            ]
            rig.show(.subscribe, from: "juliet@capulet.example", words)
            // The server asks again in each session until it is answered.
            try await account.caughtUp()
            try await rig.loseSession(account)
            rig.show(.subscribe, from: "juliet@capulet.example", words)
            rig.show(.subscribe, from: "romeo@montague.example/orchard")
            rig.show(.subscribe, from: "alice@localhost")
            try await account.caughtUp()
            let waiting = try requests(account)
            #expect(waiting.map(\.jid.description) == ["juliet@capulet.example", "romeo@montague.example"])
            #expect(waiting.first?.status == "let me in")
            #expect(waiting.first?.nick == "Jules")
            #expect(await told.next() == .requested(waiting[0]))
            #expect(await told.next() == .loaded)
            #expect(await told.next() == .requested(waiting[1]))
            if isApproved {
                try await account.perform { try account.roster.approve(Self.juliet, in: $0) }
            } else {
                try await account.perform { try account.roster.deny(Self.juliet, in: $0) }
            }
            try await account.caughtUp()
            #expect(try requests(account).map(\.jid.local) == ["romeo"])
            #expect(steps(rig) == [isApproved ? "subscribed" : "unsubscribed"])
            rig.show(.unsubscribe, from: "romeo@montague.example")
            try await account.caughtUp()
            #expect(try requests(account) == [])
            #expect(await told.next() == .unsubscribed(try JID("romeo@montague.example")))
        }
    }

    @Test("X10 a request that another client approves is answered; one of somebody who sees us is none")
    func approvedElsewhere() async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([RosterModule()])
            rig.show(.subscribe, from: "juliet@capulet.example")
            push(rig, "from")
            try await account.caughtUp()
            #expect(try requests(account) == [])
            rig.show(.subscribe, from: "juliet@capulet.example")
            try await account.caughtUp()
            #expect(try requests(account) == [])
        }
    }

    @Test("X10 presence that grants or refuses changes nothing in the roster: only the server's push does")
    func onlyPresence() async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([RosterModule()])
            push(rig, "none", ask: true)
            for type in [Presence.Kind.subscribed, .unsubscribed, .probe] {
                rig.show(type, from: "juliet@capulet.example")
            }
            try await account.caughtUp()
            let item = try account.store.step { try account.roster.item(for: Self.juliet, in: $0) }
            #expect(item == RosterItem(Self.juliet, isAsking: true))
        }
    }

    // MARK: We ask

    private func ask(_ account: Account) async throws {
        try await account.perform {
            try account.roster.subscribe(
                to: Self.juliet.with(resource: "balcony"), status: "please",
                then: ContactsApp.Decided(name: "d").durable, orElse: TestApp.Abandoned(name: "d").durable,
                in: $0)
        }
        try await account.caughtUp()
    }

    @Test("X10 the contact's decision calls the stored handler once, not before the roster tells it")
    func decided() async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([RosterModule()])
            try await ask(account)
            #expect(steps(rig) == ["subscribe"])
            let xml = rig.server.log.entries.first { $0.type == "subscribe" }?.xml
            #expect(xml?.contains("<status>please</status>") == true)
            // As the item was before it was asked.
            push(rig, "none")
            push(rig, "none", ask: true)
            push(rig, "to", ask: true, try JID("other@capulet.example"))
            try await account.caughtUp()
            #expect(try account.store.notes("decided") == [])
            push(rig, "to")
            push(rig, "both")
            push(rig, "none")
            try await account.caughtUp()
            #expect(try account.store.notes("decided") == ["d: approved by juliet@capulet.example"])
            #expect(try account.store.notes("abandoned") == [])
        }
    }

    @Test("X10 a refusal, a removal and an error of the contact's server are reported as such")
    func refused() async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([RosterModule()])
            try await ask(account)
            push(rig, "none", ask: true)
            push(rig, "none")
            try await account.caughtUp()
            try await ask(account)
            push(rig, "none", ask: true)
            push(rig, "remove")
            try await account.caughtUp()
            try await ask(account)
            push(rig, "none", ask: true)
            rig.show(.error, from: Self.juliet.description, [StanzaError(.remoteServerNotFound).element])
            try await account.caughtUp()
            #expect(
                try account.store.notes("decided") == [
                    "d: denied by juliet@capulet.example", "d: denied by juliet@capulet.example",
                    "d: failed remote-server-not-found by juliet@capulet.example",
                ])
            #expect(try account.store.waitingHandlers == 0)
        }
    }

    @Test("X10 who is seen already is approved at once; who does not ask any more is notified")
    func atOnce() async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([RosterModule()])
            try await ask(account)
            try await account.perform { try account.roster.unsubscribe(from: Self.juliet, in: $0) }
            try await account.caughtUp()
            #expect(try account.store.notes("abandoned") == ["d: cancelled"])
            push(rig, "to")
            try await account.caughtUp()
            try await ask(account)
            #expect(try account.store.notes("decided") == ["d: approved by juliet@capulet.example"])
            #expect(steps(rig) == ["subscribe", "unsubscribe", "subscribe"])
        }
    }

    @Test("X10 a decision that came while the session was lost is found in the roster that is fetched again")
    func decidedMeanwhile() async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([RosterModule()])
            try await ask(account)
            try await eventually { try account.store.number("SELECT count(*) FROM subscription_stanza") == 0 }
            try await rig.loseSession(account)
            #expect(steps(rig) == ["subscribe"], "the server has it, so it is not sent again")
            #expect(try account.store.notes("decided") == ["d: denied by juliet@capulet.example"])
        }
    }

    @Test("X10 a step of a subscription that was lost with its session goes once with the next one")
    func sentAgain() async throws {
        try await withModulesRig(reconnects: false) { rig in
            let account = try await rig.connected([RosterModule()])
            let events = EventReader(account)
            rig.server.pause([.reading])
            try await account.perform { try account.roster.subscribe(to: Self.juliet, in: $0) }
            try await account.perform {
                try account.roster.subscribe(
                    to: Self.juliet, then: ContactsApp.Decided(name: "d").durable,
                    orElse: TestApp.Abandoned(name: "d").durable, in: $0)
            }
            rig.server.update { $0.reportsLostCount = false }
            rig.server.dropConnections()
            await events.until("suspended")
            rig.server.refuseNextResumption()
            let mark = rig.server.log.count
            try await account.connect()
            try await account.caughtUp()
            #expect(steps(rig, from: mark) == ["subscribe"], "two that say the same are one")
            #expect(try account.store.notes("decided") == [], "it was under way")
            try await eventually { try account.store.number("SELECT count(*) FROM subscription_stanza") == 0 }
            rig.server.refuseNextResumption()
            rig.server.dropConnections()
            await events.until("suspended")
            try await account.connect()
            try await account.caughtUp()
            #expect(steps(rig, from: mark) == ["subscribe"])
            #expect(try account.store.notes("abandoned") == [])
        }
    }

    @Test(
        "X10 logging out ends a question that was never sent; one that was sent is decided after the next login"
    )
    func loggedOut() async throws {
        try await withModulesRig { rig in
            let account = try rig.account { $0.modules = [RosterModule()] }
            try await account.perform {
                try account.roster.subscribe(
                    to: Self.juliet, then: ContactsApp.Decided(name: "unsent").durable,
                    orElse: TestApp.Abandoned(name: "unsent").durable, in: $0)
            }
            try await account.logOut()
            #expect(try account.store.notes("abandoned") == ["unsent: logout"])
            try await account.connect()
            try await account.caughtUp()
            #expect(steps(rig) == [])
            try await ask(account)
            try await eventually { try account.store.outboxCount == 0 }
            try await account.logOut()
            #expect(try account.store.notes("abandoned").count == 1)
            try await account.connect()
            try await account.caughtUp()
            #expect(try account.store.notes("decided") == ["d: denied by juliet@capulet.example"])
        }
    }

    @Test("X10 a decision is taken by another process, which resumes the session and asks for nothing")
    func anotherProcess() async throws {
        try await withModulesRig { rig in
            let first = try await rig.connected([RosterModule()])
            try await ask(first)
            push(rig, "none", ask: true)
            try await first.caughtUp()
            await first.close()
            push(rig, "to")
            let mark = rig.server.log.count
            let second = try await rig.connected([RosterModule()])
            #expect(rig.sent(from: mark).allSatisfy { $0.hasPrefix("iq ") }, "the answer to the push alone")
            #expect(try rig.requests("query", Namespaces.roster, from: mark).isEmpty)
            #expect(try second.store.notes("decided") == ["d: approved by juliet@capulet.example"])
            #expect(try second.store.waitingHandlers == 0)
        }
    }

    // MARK: Presence of contacts

    private func resources(_ account: Account, of jid: JID = juliet) throws -> [String] {
        try account.store.step { step in
            try account.roster.presence(of: jid, in: step).map {
                "\($0.jid.resource ?? "-") \($0.show ?? "-") \($0.status ?? "-") \($0.priority)"
            }
        }
    }

    private func words(_ show: String, _ status: String, _ priority: String) -> [Element] {
        [("show", show), ("status", status), ("priority", priority)].map {
            Element($0.0, namespace: Namespaces.client, text: $0.1)
        }
    }

    @Test(
        "X10 the presence of contacts is kept for the session: a resumption keeps it, a new session forgets it"
    )
    func presence() async throws {
        try await withModulesRig { rig in
            rig.serve { iq in
                guard iq.payload?.namespace == Namespaces.roster else { return nil }
                let item = Element(
                    "item", namespace: Namespaces.roster,
                    attributes: ["jid": Self.juliet.description, "subscription": "both"])
                return .success(Element("query", namespace: Namespaces.roster, children: [item]))
            }
            let account = try await rig.connected([RosterModule()])
            rig.show(from: "juliet@capulet.example/balcony", words("away", "sighing", "5"))
            rig.show(from: "juliet@capulet.example/chamber", words("", "", "300"))
            rig.show(
                from: "juliet@capulet.example/tomb", words("xa", String(repeating: "z", count: 5000), "-1"))
            try await account.caughtUp()
            #expect(try resources(account).prefix(2) == ["balcony away sighing 5", "chamber - - 0"])
            #expect(try resources(account).last?.count == "tomb xa  -1".count + 1024)
            try await rig.resume(account)
            #expect(try resources(account).count == 3)
            rig.show(.unavailable, from: "juliet@capulet.example/tomb")
            rig.show(from: "juliet@capulet.example/balcony", words("dnd", "", "1"))
            try await account.caughtUp()
            #expect(try resources(account) == ["balcony dnd - 1", "chamber - - 0"])
            rig.show(.unavailable, from: "juliet@capulet.example")
            try await account.caughtUp()
            #expect(try resources(account) == [])
            rig.show(from: "juliet@capulet.example/balcony")
            rig.show(from: "alice@localhost/phone")
            try await account.caughtUp()
            #expect(try resources(account).count == 1)
            #expect(try resources(account, of: AccountRig.alice) == ["phone - - 0"])
            try await rig.loseSession(account)
            #expect(try resources(account) == [])
        }
    }

    @Test("X10 presence of strangers and of occupants of rooms is not kept, nor that of who is seen no more")
    func strangersPresence() async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([RosterModule()])
            push(rig, "to")
            push(rig, "to", try JID("room@conference.example"))
            rig.show(from: "juliet@capulet.example/balcony")
            rig.show(from: "stranger@evil.example/x")
            rig.show(
                from: "room@conference.example/juliet", [Element("x", namespace: Namespaces.mucUser)])
            try await account.caughtUp()
            #expect(try account.store.number("SELECT count(*) FROM contact_presence") == 1)
            push(rig, "from")
            try await account.caughtUp()
            #expect(try account.store.number("SELECT count(*) FROM contact_presence") == 0)
        }
    }

    @Test(
        "X10 what arrives before the roster is kept, and what of it is of strangers is removed with the roster"
    )
    func early() async throws {
        try await withModulesRig { rig in
            rig.server.setScript { element, _ in
                (try? IQ(element: element))?.payload?.namespace == Namespaces.roster ? .drop : .pass
            }
            let account = try await rig.connected([RosterModule()])
            let request = try #require(rig.requests("query", Namespaces.roster).first)
            rig.show(from: "juliet@capulet.example/balcony")
            rig.show(from: "stranger@evil.example/x")
            try await account.caughtUp()
            #expect(try account.store.number("SELECT count(*) FROM contact_presence") == 2)
            let item = Element(
                "item", namespace: Namespaces.roster,
                attributes: ["jid": Self.juliet.description, "subscription": "to"])
            let roster = Element("query", namespace: Namespaces.roster, children: [item])
            rig.server.send(try #require(request.result(payload: roster)).element, to: .jid(AccountRig.alice))
            try await account.caughtUp()
            #expect(try account.store.number("SELECT count(*) FROM contact_presence") == 1)
            #expect(try resources(account) == ["balcony - - 0"])
        }
    }

    @Test("X10 one contact has no more than a hundred resources")
    func manyResources() async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([RosterModule()])
            push(rig, "to")
            for number in 0..<150 { rig.show(from: "juliet@capulet.example/r\(number)") }
            rig.show(from: "juliet@capulet.example/r7", words("away", "", "1"))
            try await account.caughtUp()
            #expect(try resources(account).count == 100)
            #expect(try resources(account).first == "r7 away - 1")
        }
    }
}
