import Handlers
import TestThreads
import Testing
import XMPPCore

@testable import PubSub
@testable import XMPPAccount
@testable import XMPPModules

/// Standing handlers of nodes: who is called, with what, and once.
@Suite(.ownThread) struct StandingHandlerTests {
    private let juliet = "juliet@capulet.example"
    private let node = EventAccount.node

    private func reasons(_ events: [AccountEvent]) -> [String] {
        events.compactMap { if case .ignored(_, let reason) = $0 { reason } else { nil } }
    }

    // MARK: Who is called

    @Test("P4 each event calls the standing handlers of its node, and those of no other")
    func byNode() async throws {
        let account = try EventAccount()
        try account.listen(tag: "nicks")
        try account.listen(to: "urn:x:other", tag: "others")
        try account.receive(event: EventAccount.nick("Jule"))
        try account.receive(event: "<items node='urn:x:other'><retract id='7'/></items>")
        try account.receive(event: "<purge node='\(node)'/>")
        try account.receive(event: "<delete node='\(node)'/>")
        try account.receive(event: EventAccount.nick("Jule", node: node + "/more"))
        #expect(
            try account.notes == [
                "nicks \(juliet) \(node): items current=Jule",
                "others \(juliet) urn:x:other: retracted 7",
                "nicks \(juliet) \(node): purged",
                "nicks \(juliet) \(node): deleted -",
            ])
        await account.close()
    }

    @Test(
        "P4 a handler of one publisher is called for that one's node alone; several handlers are all called")
    func byPublisher() async throws {
        let account = try EventAccount()
        try account.listen(tag: "all")
        try account.listen(of: juliet, tag: "hers")
        try account.listen(of: juliet, as: "second", tag: "hers too")
        try account.listen(of: "pubsub.capulet.example", tag: "service")
        try account.receive(event: EventAccount.nick("Jule"))
        try account.receive(event: EventAccount.nick("Nurse"), from: "nurse@capulet.example")
        try account.receive(event: EventAccount.nick("News"), from: "pubsub.capulet.example")
        let nick = "\(node): items current="
        #expect(
            try Set(account.notes) == [
                "all \(juliet) \(nick)Jule", "hers \(juliet) \(nick)Jule", "hers too \(juliet) \(nick)Jule",
                "all nurse@capulet.example \(nick)Nurse", "all pubsub.capulet.example \(nick)News",
                "service pubsub.capulet.example \(nick)News",
            ])
        #expect(try account.notes.count == 6)
        await account.close()
    }

    @Test(
        "P4 several items, mixed with retractions, are reported in their order; several changes in one message too"
    )
    func several() async throws {
        let account = try EventAccount()
        try account.listen()
        try account.receive(
            event:
                "<items node='\(node)'><item id='1'/><item id='2'/><retract id='1'/><item id='3'/></items><purge node='\(node)'/>"
        )
        #expect(
            try account.notes
                == ["items 1=-,2=-", "retracted 1", "items 3=-", "purged"].map {
                    "a \(juliet) \(node): \($0)"
                })
        await account.close()
    }

    @Test("P4 the subscriptions that brought an event are reported, and an own subscription that changes")
    func subscriptions() async throws {
        let account = try EventAccount()
        try account.listen(of: "pubsub.capulet.example")
        let headers =
            "<headers xmlns='http://jabber.org/protocol/shim'><header name='SubID'>123</header><header name='Keywords'>x</header><header name='SubID'>4</header></headers>"
        try account.receive(
            event: "<items node='\(node)'/>", from: "pubsub.capulet.example", type: "normal", beside: headers)
        try account.receive(
            event: "<subscription node='\(node)' jid='\(EventAccount.jid)' subscription='none'/>",
            from: "pubsub.capulet.example")
        #expect(
            try account.notes == [
                "a pubsub.capulet.example \(node): items  by 123,4",
                "a pubsub.capulet.example \(node): subscription \(EventAccount.jid) none - -",
            ])
        await account.close()
    }

    @Test("P4 delayed events say since when, if the service or the own server says so")
    func delayed() async throws {
        let account = try EventAccount()
        try account.listen()
        func delay(_ from: String?) -> String {
            "<delay xmlns='urn:xmpp:delay'\(from.map { " from='\($0)'" } ?? "") stamp='2026-01-01T00:00:00Z'/>"
        }
        for (index, from) in [nil, juliet, "capulet.example", "montague.example", "mallory@evil.example"]
            .enumerated()
        {
            try account.receive(event: EventAccount.nick("\(index)"), beside: delay(from))
        }
        let notes = try account.notes
        #expect(notes.count == 5)
        #expect(notes.prefix(4).allSatisfy { $0.hasSuffix(" sent at 1767225600000") })
        #expect(notes.last == "a \(juliet) \(node): items current=4")
        await account.close()
    }

    // MARK: Spoofing

    @Test("P4 a spoofed publisher is ignored: an event is one of the address it came from")
    func spoofedPublisher() async throws {
        let account = try EventAccount()
        try account.listen(of: juliet)
        try account.receive(
            event: EventAccount.nick("Mallory", publisher: juliet), from: "mallory@evil.example")
        #expect(try account.notes.isEmpty)
        #expect(
            try reasons(
                account.receive(event: EventAccount.nick("Mallory"), from: "juliet@capulet.example.evil")
            )
            .isEmpty)
        #expect(try account.notes.isEmpty)
        await account.close()
    }

    @Test("P4 what a client sends from its own address is no event, not even an own client's")
    func fromResources() async throws {
        let account = try EventAccount()
        try account.listen()
        var ignored: [String] = []
        let events = account.account.events
        for from in [juliet + "/balcony", EventAccount.jid + "/other"] {
            try account.receive(event: EventAccount.nick("x"), from: from)
        }
        await account.close()
        for await event in events { ignored += reasons([event]) }
        #expect(
            ignored
                == [juliet + "/balcony", EventAccount.jid + "/other"].map {
                    "an event of a node came from \($0), but nodes are at bare addresses"
                })
        #expect(try account.notes.isEmpty)
    }

    @Test("P4 errors, rooms, copies and archives bring no events", arguments: ["error", "groupchat"])
    func otherMessages(type: String) async throws {
        let account = try EventAccount(modules: [DiscoModule(), CarbonsModule(), PubSubEvents()])
        try account.listen()
        try account.receive(event: EventAccount.nick("x"), type: type)
        let copy = try EventAccount.event(EventAccount.nick("y"), type: "chat")
        let carbon = Element(
            "received", namespace: Namespaces.carbons,
            children: [Element("forwarded", namespace: Namespaces.forward, children: [copy])])
        try account.receive(
            Message(to: nil, from: JID(EventAccount.jid), type: .chat, children: [carbon]).element)
        #expect(try account.notes.isEmpty)
        try account.receive(event: EventAccount.nick("x"))
        #expect(try account.notes.count == 1)
        await account.close()
    }

    @Test("P4 an event in a copy or out of an archive is the past and brings nothing")
    func pastEvents() async throws {
        let account = try EventAccount()
        try account.listen()
        let message = try Message(element: EventAccount.event(EventAccount.nick("x")))
        func isTaken(_ source: MessageReceived.Source) throws -> Bool {
            try account.step { step in
                try PubSubEvents().receive(
                    MessageReceived(account: account.account, message: message, source: source), in: step)
            }
        }
        let archive = try JID(EventAccount.jid)
        for source in [
            MessageReceived.Source.carbonReceived, .carbonSent,
            .archive(archive, id: "1", storedAt: Timestamp(milliseconds: 1)),
        ] {
            #expect(try !isTaken(source))
        }
        #expect(try account.notes.isEmpty)
        #expect(try isTaken(.direct))
        #expect(try account.notes.count == 1)
        await account.close()
    }

    @Test("P4 with a roster, handlers of everybody's nodes are called for the account and its contacts only")
    func contactsOnly() async throws {
        let account = try EventAccount(modules: [DiscoModule(), RosterModule(), PubSubEvents()])
        try account.listen(tag: "all")
        try account.listen(of: "mallory@evil.example", tag: "named")
        for (jid, subscription) in [(juliet, "both"), ("paris@capulet.example", "none")] {
            try account.receive(
                Element(
                    parsing:
                        "<iq type='set' id='\(jid)'><query xmlns='jabber:iq:roster'><item jid='\(jid)' subscription='\(subscription)'/></query></iq>",
                    defaultNamespace: Namespaces.client))
        }
        for from in [juliet, "paris@capulet.example", "mallory@evil.example", EventAccount.jid] {
            try account.receive(event: EventAccount.nick("x"), from: from)
        }
        try account.receive(event: "<purge node='\(node)'/>", from: nil)
        #expect(
            try account.notes == [
                "all \(juliet) \(node): items current=x",
                "named mallory@evil.example \(node): items current=x",
                "all \(EventAccount.jid) \(node): items current=x own",
                "all \(EventAccount.jid) \(node): purged own",
            ])
        await account.close()
    }

    @Test(
        "P4 an event with a handler is no message to listeners; one without is, and one with a text is both")
    func messages() async throws {
        let account = try EventAccount()
        try account.step { step in
            try account.account.listen(as: "test", EventApp.Message().durable, in: step)
        }
        try account.listen()
        try account.receive(event: EventAccount.nick("x"), id: "1")
        try account.receive(event: EventAccount.nick("x", node: "urn:x:other"), id: "2")
        try account.receive(event: EventAccount.nick("y"), id: "3", beside: "<body>y</body>")
        #expect(
            try account.notes == [
                "a \(juliet) \(node): items current=x", "message 2", "a \(juliet) \(node): items current=y",
                "message 3",
            ])
        await account.close()
    }

    // MARK: Changing

    @Test("P4 the same key replaces a handler, and a handler that was removed is not called any more")
    func replaced() async throws {
        let account = try EventAccount()
        try account.listen(tag: "old")
        try account.listen(tag: "new")
        try account.receive(event: EventAccount.nick("x"))
        let isRemoved = try account.step { step in
            try account.pubsub.stopListening(to: node, as: "test", in: step)
        }
        let isRemovedAgain = try account.step { step in
            try account.pubsub.stopListening(to: node, as: "test", in: step)
        }
        #expect(isRemoved && !isRemovedAgain)
        try account.receive(event: EventAccount.nick("y"))
        #expect(try account.notes == ["new \(juliet) \(node): items current=x"])
        #expect(try account.number("SELECT count(*) FROM handler WHERE name = 'test.event-seen'") == 0)
        #expect(try account.number("SELECT count(*) FROM pubsub_seen_item") == 0)
        await account.close()
    }

    @Test("P4 what cannot work is refused: no module, no tables, no node, a publisher with a resource")
    func refused() async throws {
        let account = try EventAccount()
        #expect(throws: AccountError.self) { try account.listen(to: "") }
        #expect(throws: AccountError.self) { try account.listen(to: "a\u{0}b") }
        #expect(throws: AccountError.self) { try account.listen(of: juliet + "/balcony") }
        await account.close()
        let withoutTables = #expect(throws: AccountError.self) { try EventAccount(schemas: []) }
        #expect(withoutTables?.code == .invalidConfiguration)
        #expect(withoutTables?.message.contains("the schema of PubSubEvents") == true)
        let withoutModule = try EventAccount(modules: [])
        do {
            try withoutModule.listen()
            Issue.record("listened without the module")
        } catch let error as AccountError {
            #expect(error.code == .missingModule)
        }
        await withoutModule.close()
    }

    // MARK: Failing and dying

    @Test(
        "P4 a handler that throws is undone and tried again as it says, then quarantined; the others are called"
    )
    func throwing() async throws {
        let account = try EventAccount()
        try account.step { step in
            try account.pubsub.listen(
                to: node, as: "failing", EventApp.Failing().durable, in: step)
        }
        try account.listen()
        try account.receive(event: EventAccount.nick("x"))
        #expect(try account.notes == ["a \(juliet) \(node): items current=x"])
        #expect(
            try account.number(
                "SELECT count(*) FROM handler WHERE name = 'test.event-failing' AND kind = 0 AND due IS NOT NULL"
            ) == 1)
        try account.account.runner.start()
        _ = try await account.account.runner.drain(for: .seconds(20))
        while try account.number("SELECT count(*) FROM handler WHERE state = 2") == 0 {
            _ = try await account.account.runner.drain(for: .seconds(20))
        }
        #expect(try account.notes.count == 1, "what it wrote is undone")
        // The item is not shown to it again by the service's next showing: the call that waits holds it.
        try account.receive(event: EventAccount.nick("x"))
        #expect(try account.number("SELECT count(*) FROM handler WHERE kind = 0") == 1)
        await account.close()
    }

    @Test(
        "H27 with ordered: an event waits while an earlier one is tried again, and the same handler can be bound otherwise later"
    )
    func ordered() async throws {
        let account = try EventAccount()
        func listen(_ isOrdered: Bool) throws {
            try account.step { step in
                try account.pubsub.listen(
                    to: node, as: "hesitant", EventApp.Hesitant().durable, ordered: isOrdered, in: step)
            }
        }
        func receive(_ nicks: String...) throws {
            for nick in nicks { try account.receive(event: EventAccount.nick(nick)) }
        }
        func drain(until count: Int) async throws {
            while try account.notes.count < count {
                _ = try await account.account.runner.drain(for: .seconds(20))
            }
        }
        // The one that is there is ordered from now on.
        try listen(false)
        try listen(true)
        try receive("late", "x")
        #expect(try account.notes == [])
        try await drain(until: 2)
        #expect(try account.takeNotes() == ["items current=late", "items current=x"])
        try listen(false)
        // Nothing runs between these: they come in one step.
        try account.step { step in
            for nick in ["late", "y"] {
                try account.offline.receive(EventAccount.event(EventAccount.nick(nick)), in: step)
            }
        }
        try await drain(until: 2)
        #expect(try account.notes == ["items current=y", "items current=late"])
        await account.close()
    }

    @Test("P4 a handler that a process does not know is parked with the event, and called by one that does")
    func parked() async throws {
        let old = try EventAccount(handlers: PubSubService.handlers)
        try old.step { step in
            try old.pubsub.listen(
                to: UserNick.self, as: "typed", EventApp.NickSeen(tag: "t").durable, in: step)
        }
        try old.receive(
            event:
                "<items node='\(node)'><item id='current' publisher='\(juliet)'><nick xmlns='\(Namespaces.nick)'>Jule</nick></item></items>",
            beside: "<delay xmlns='urn:xmpp:delay' stamp='2026-01-01T00:00:00Z'/>")
        #expect(try old.number("SELECT count(*) FROM handler WHERE state = 1") == 1)
        await old.close()
        let new = try EventAccount(in: old.folder)
        try new.account.runner.start()
        while try new.notes.isEmpty { _ = try await new.account.runner.drain(for: .seconds(20)) }
        #expect(try new.notes == ["t \(juliet): nicks [\"Jule\"], unreadable []"])
        await new.close()
    }

    @Test("P4 an async handler of a typed node runs outside of the step, once")
    func asynchronous() async throws {
        let account = try EventAccount()
        try account.step { step in
            try account.pubsub.listen(to: UserNick.self, as: "later", EventApp.Later().durable, in: step)
        }
        try account.receive(event: EventAccount.nick("x"))
        try account.account.runner.start()
        while try account.notes.isEmpty { _ = try await account.account.runner.drain(for: .seconds(20)) }
        #expect(try account.notes == ["later [\"x\"]"])
        await account.close()
    }

    @Test("P4 a process that dies before the commit leaves nothing; the event comes again and is taken once")
    func diesBeforeCommit() async throws {
        let first = try EventAccount()
        try first.listen()
        try first.receive(EventAccount.event(EventAccount.nick("x"), id: "e1"), isCommitted: false)
        #expect(try first.notes.isEmpty)
        await first.close()
        let second = try EventAccount(in: first.folder)
        try second.receive(event: EventAccount.nick("x"), id: "e1")
        // The server did not learn that it was committed, and sends it in another session.
        try second.receive(event: EventAccount.nick("x"), id: "e1")
        #expect(try second.notes == ["a \(juliet) \(node): items current=x"])
        await second.close()
    }

    @Test("P4 the next process finds the standing handlers, with what they have seen")
    func nextProcess() async throws {
        let first = try EventAccount()
        try first.listen()
        try first.receive(event: EventAccount.nick("x"))
        await first.close()
        let second = try EventAccount(in: first.folder)
        try second.receive(event: EventAccount.nick("x"))
        try second.receive(event: EventAccount.nick("y"))
        #expect(
            try second.notes == ["x", "y"].map { "a \(juliet) \(node): items current=\($0)" })
        await second.close()
    }
}
