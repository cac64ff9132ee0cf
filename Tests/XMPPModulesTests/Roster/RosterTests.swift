import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// The roster: fetched, versioned, pushed, changed.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct RosterTests {
    private static func item(
        _ jid: String?, _ attributes: [(String, String)] = [], groups: [String] = []
    ) -> Element {
        var item = Element(
            "item", namespace: Namespaces.roster, attributes: ["jid": jid],
            children: groups.map { Element("group", namespace: Namespaces.roster, text: $0) })
        for (name, value) in attributes { item[name] = ForeignText(value) }
        return item
    }

    private static func query(_ version: String? = nil, _ items: Element...) -> Element {
        Element("query", namespace: Namespaces.roster, attributes: ["ver": version], children: items)
    }

    private static let juliet = try! JID("juliet@capulet.example")  // A constant that is an address.

    private func items(_ account: Account) throws -> [RosterItem] {
        try account.store.step { try account.roster.items(in: $0) }
    }

    private func version(_ account: Account) throws -> ForeignText? {
        try account.store.step { try account.roster.version(in: $0) }
    }

    private func gets(_ rig: AccountRig, from index: Int = 0) throws -> [IQ] {
        try rig.requests("query", Namespaces.roster, from: index).filter { $0.type == .get }
    }

    @Test("X10 the roster is fetched before the presence; malformed items are ignored one by one")
    func fetched() async throws {
        try await withModulesRig { rig in
            rig.serve { iq in
                guard iq.payload?.namespace == Namespaces.roster else { return nil }
                return .success(
                    Self.query(
                        nil,
                        Self.item(
                            "Juliet@Capulet.example",
                            [("name", "Juliet"), ("subscription", "both"), ("mood", "in love")],
                            groups: ["Verona", "", "Friends", "Verona"]),
                        Self.item(nil, [("name", "nobody")]), Self.item("@malformed"), Self.item("a b@c"),
                        Element("item", namespace: "urn:other", attributes: ["jid": "x@y.example"]),
                        Self.item("nurse@capulet.example", [("subscription", "worship"), ("approved", "1")]),
                        Self.item(
                            "romeo@montague.example",
                            [
                                ("name", ""), ("subscription", "from"), ("ask", "subscribe"),
                                ("approved", "true"),
                            ])
                    ))
            }
            let account = try await rig.connected([RosterModule()])
            #expect(
                try items(account) == [
                    RosterItem(
                        Self.juliet, name: "Juliet", subscription: .both, groups: ["Verona", "Friends"]),
                    RosterItem(try JID("nurse@capulet.example"), isApproved: true),
                    RosterItem(
                        try JID("romeo@montague.example"), subscription: .from, isAsking: true,
                        isApproved: true),
                ])
            #expect(try gets(rig).map(\.payload) == [Self.query()], "no version for a server that has none")
            #expect(try gets(rig).first?.to == nil)
            #expect(rig.sent().map { $0.split(separator: " ").first } == ["iq", "presence"])
        }
    }

    @Test("X10 a version is asked for only where announced; an empty result leaves what is stored")
    func versions() async throws {
        try await withModulesRig({ $0.behavior.offersRosterVersions = true }) { rig in
            rig.serve { iq in
                guard iq.payload?.namespace == Namespaces.roster else { return nil }
                switch iq.payload?["ver"] {
                case "v2": return .success(nil)
                default: return .success(Self.query("v1", Self.item("juliet@capulet.example")))
                }
            }
            let account = try await rig.connected([RosterModule()])
            let told = ModuleReader(account, RosterChange.self)
            rig.push("p1", Self.query("v2", Self.item("romeo@montague.example", [("name", "Romeo")])))
            try await account.caughtUp()
            #expect(try version(account) == "v2")
            try await rig.loseSession(account)
            #expect(try gets(rig).map { $0.payload?["ver"] } == ["", "v2"])
            try #expect(items(account).map(\.jid.local) == ["juliet", "romeo"])
            #expect(try version(account) == "v2")
            _ = await told.next()
            #expect(await told.next() == .loaded)
            // A push that says no version leaves the one that is known: asking with it again brings nothing twice.
            rig.push("p2", Self.query(nil, Self.item("juliet@capulet.example", [("subscription", "remove")])))
            try await account.caughtUp()
            #expect(try version(account) == "v2")
            #expect(try items(account).map(\.jid.local) == ["romeo"])
        }
    }

    @Test("X10 a lost session fetches the roster again and replaces it; a resumption sends nothing")
    func sessions() async throws {
        try await withModulesRig { rig in
            let names = Kept(["juliet", "nurse"])
            rig.serve { iq in
                guard iq.payload?.namespace == Namespaces.roster else { return nil }
                let names = names.withLock { $0 }
                var query = Self.query()
                for name in names { query.append(Self.item("\(name)@capulet.example")) }
                return .success(query)
            }
            let account = try await rig.connected([RosterModule()])
            names.withLock { $0 = ["nurse", "tybalt"] }
            let mark = rig.server.log.count
            try await rig.resume(account)
            #expect(rig.sent(from: mark) == [])
            #expect(try items(account).map(\.jid.local) == ["juliet", "nurse"])
            try await rig.loseSession(account)
            #expect(try gets(rig).count == 2)
            #expect(try items(account).map(\.jid.local) == ["nurse", "tybalt"])
        }
    }

    @Test(
        "X10 a roster that is refused or makes no sense leaves what is stored and is reported",
        arguments: [true, false])
    func notLoaded(isError: Bool) async throws {
        try await withModulesRig { rig in
            rig.serve { iq in
                guard iq.payload?.namespace == Namespaces.roster else { return nil }
                return .success(Self.query("1", Self.item("juliet@capulet.example")))
            }
            let account = try await rig.connected([RosterModule()])
            rig.serve { iq in
                guard iq.payload?.namespace == Namespaces.roster else { return nil }
                return isError
                    ? .failure(StanzaError(.internalServerError))
                    : .success(Element("query", namespace: "urn:other"))
            }
            let told = ModuleReader(account, RosterChange.self)
            try await rig.loseSession(account)
            let condition: OpenName<StanzaError> = isError ? .internalServerError : .undefinedCondition
            #expect(await told.next() == .notLoaded(StanzaError(condition)))
            #expect(try items(account).count == 1)
        }
    }

    @Test("X10 a roster of an earlier session that comes late changes nothing")
    func late() async throws {
        try await withModulesRig { rig in
            rig.server.setScript { element, _ in
                (try? IQ(element: element))?.payload?.namespace == Namespaces.roster ? .drop : .pass
            }
            let account = try await rig.connected([RosterModule()])
            let first = try #require(gets(rig).first)
            rig.serve { iq in
                guard iq.payload?.namespace == Namespaces.roster else { return nil }
                return .success(Self.query(nil, Self.item("new@example.org")))
            }
            try await rig.loseSession(account)
            let answer = first.result(payload: Self.query(nil, Self.item("old@example.org")))
            rig.server.send(try #require(answer).element, to: .jid(AccountRig.alice))
            try await account.caughtUp()
            #expect(try items(account).map(\.jid.local) == ["new"])
        }
    }

    // MARK: Pushes

    @Test("X10 a push is taken from the own server only, and answered", arguments: [nil, "alice@localhost"])
    func push(sender: String?) async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([RosterModule()])
            let told = ModuleReader(account, RosterChange.self)
            rig.push(
                "p1", Self.query("7", Self.item("juliet@capulet.example", [("subscription", "to")])),
                from: sender)
            try await rig.saw { $0.event == .received && $0.id == "p1" }
            let answer = try IQ(
                element: Element(parsing: rig.xml(ofID: "p1")[0], defaultNamespace: Namespaces.client))
            #expect(answer.type == .result)
            #expect(answer.payload == nil)
            let expected = RosterItem(Self.juliet, subscription: .to)
            #expect(try items(account) == [expected])
            #expect(try version(account) == "7")
            #expect(await told.next() == .changed(expected))
            rig.push(
                "p2", Self.query("8", Self.item("juliet@capulet.example", [("subscription", "remove")])),
                from: sender)
            try await account.caughtUp()
            #expect(try items(account) == [])
            #expect(await told.next() == .removed(Self.juliet))
        }
    }

    @Test(
        "X10 a stranger's push is refused with service-unavailable and changes nothing",
        arguments: AccountRig.strangers)
    func strangersPush(sender: String) async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([RosterModule()])
            let told = ModuleReader(account, RosterChange.self)
            rig.push("p1", Self.query("1", Self.item("juliet@capulet.example")))
            rig.push(
                "p2", Self.query("2", Self.item("juliet@capulet.example", [("name", "evil")])), from: sender)
            rig.push(
                "p3", Self.query("3", Self.item("juliet@capulet.example", [("subscription", "remove")])),
                from: sender)
            try await rig.saw { $0.event == .received && $0.id == "p3" }
            for id in ["p2", "p3"] {
                let xml = rig.xml(ofID: id)
                #expect(xml.count == 1)
                #expect(xml.first?.contains("type='error'") == true)
                #expect(xml.first?.contains("<service-unavailable") == true)
            }
            #expect(try items(account) == [RosterItem(Self.juliet)])
            #expect(try version(account) == "1")
            _ = await told.next()
            #expect(await told.next() == .refused(try JID(sender)))
        }
    }

    @Test(
        "X10 a push without exactly one item is a bad request; one with a malformed address is answered and ignored"
    )
    func malformedPush() async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected([RosterModule()])
            rig.push("none", Self.query("1"))
            rig.push("two", Self.query("2", Self.item("a@b.example"), Self.item("c@d.example")))
            rig.push("bad", Self.query("3", Self.item("@b.example")))
            try await rig.saw { $0.event == .received && $0.id == "bad" }
            #expect(rig.xml(ofID: "none").first?.contains("<bad-request") == true)
            #expect(rig.xml(ofID: "two").first?.contains("<bad-request") == true)
            #expect(rig.xml(ofID: "bad").first?.contains("type='result'") == true)
            #expect(try items(account) == [])
            #expect(try version(account) == "3")
        }
    }

    // MARK: Changes

    @Test(
        "X10 items are set and removed as the RFC writes them; the answer is awaited or calls a stored handler"
    )
    func changes() async throws {
        try await withModulesRig { rig in
            rig.serve { iq in
                guard let query = iq.payload, query.namespace == Namespaces.roster, iq.type == .set else {
                    return nil
                }
                return query.firstElement?["jid"] == "nobody@capulet.example"
                    ? .failure(StanzaError(.itemNotFound)) : .success(nil)
            }
            let account = try await rig.connected([RosterModule()])
            try await account.request(
                .roster.set(RosterItem(Self.juliet, name: "Juliet", groups: ["Verona", "A & B"])))
            let nobody = try JID("nobody@capulet.example")
            await #expect(throws: StanzaError(.itemNotFound)) {
                try await account.request(.roster.remove(nobody))
            }
            try await account.send(
                .roster.set(RosterItem(Self.juliet)), then: TestApp.Answered(name: "set").durable,
                orElse: TestApp.Abandoned(name: "set").durable)
            try await account.send(.roster.remove(nobody), then: TestApp.Answered(name: "remove").durable)
            try await eventually { try account.store.notes("ended").count == 2 }
            #expect(
                try account.store.notes("ended") == [
                    "set: result - from -", "remove: error item-not-found from -",
                ])
            let sets = try rig.requests("query", Namespaces.roster).filter { $0.type == .set }
            #expect(
                sets.compactMap { $0.payload?.firstElement } == [
                    Self.item("juliet@capulet.example", [("name", "Juliet")], groups: ["Verona", "A & B"]),
                    Self.item("nobody@capulet.example", [("subscription", "remove")]),
                    Self.item("juliet@capulet.example"),
                    Self.item("nobody@capulet.example", [("subscription", "remove")]),
                ])
            #expect(try items(account) == [], "only what the server pushes is stored")
        }
    }

    @Test("X10 a change whose session is lost invalidates its handler once, and is not asked for again")
    func lostChange() async throws {
        try await withModulesRig { rig in
            rig.server.setScript { element, _ in
                (try? IQ(element: element))?.type == .set
                    && element.firstElement?.namespace == Namespaces.roster
                    ? .drop : .pass
            }
            let account = try await rig.connected([RosterModule()])
            try await account.send(
                .roster.set(RosterItem(Self.juliet)), then: TestApp.Answered(name: "set").durable,
                orElse: TestApp.Abandoned(name: "set").durable)
            try await account.caughtUp()
            try await rig.loseSession(account)
            #expect(try account.store.notes("abandoned") == ["set: session-lost"])
            #expect(try account.store.notes("ended") == [])
            #expect(try rig.requests("query", Namespaces.roster).filter { $0.type == .set }.count == 1)
        }
    }

    @Test("X10 without the module the roster is an error that says what to do")
    func missing() async throws {
        try await withModulesRig { rig in
            let account = try rig.account()
            let error =
                await errorOf { try await account.request(.roster.set(RosterItem(Self.juliet))) }
                as? AccountError
            #expect(error?.code == .missingModule)
            #expect(error?.message.contains("'roster'") == true)
        }
    }
}
