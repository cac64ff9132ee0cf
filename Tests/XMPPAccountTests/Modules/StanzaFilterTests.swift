import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPTestKit

/// Adds its name to what passes, and does what an element asks for with its attribute.
private protocol Marking: AccountModule {}

extension Marking {
    func register(in hooks: inout ModuleHooks) {
        hooks.filterIncoming = filter(incoming:of:in:)
        hooks.filterOutgoing = filter(outgoing:of:in:)
    }

    private func outcome(_ stanza: Stanza, _ way: String, in step: borrowing Step) throws -> FilteredStanza {
        var element = stanza.element
        let wish = element.elements.compactMap { $0["\(way)-\(Self.name)"] }.first
        guard wish != nil || element.child("question", TestApp.namespace) != nil || element.name != "iq"
        else {
            return .passed
        }
        try TestApp.note("filter", Self.name, "\(way) \(element.name) \(stanza.id ?? "-")", in: step)
        switch wish {
        case "stop": return .stopped("it asks for that")
        case "fail": throw TestApp.Refusal()
        case "rename":
            element["id"] = "another"
            return .changed(element)
        default:
            let mark = Element("by-\(Self.name)", namespace: TestApp.namespace)
            guard element.name == "iq", var payload = element.firstElement else {
                element.append(mark)
                return .changed(element)
            }
            // A request has one child.
            payload.append(mark)
            element.children = [.element(payload)]
            return .changed(element)
        }
    }

    func filter(incoming stanza: Stanza, of account: Account, in step: borrowing Step) throws
        -> FilteredStanza
    { try outcome(stanza, "in", in: step) }

    func filter(outgoing stanza: Stanza, of account: Account, in step: borrowing Step) throws
        -> FilteredStanza
    { try outcome(stanza, "out", in: step) }
}

private struct A: Marking { static let name = "a" }
private struct B: Marking { static let name = "b" }

/// Notes what is behind the filters.
private struct Behind: AccountModule {
    static let name = "behind"
    func register(in hooks: inout ModuleHooks) {
        hooks.receiveMessage = receive(_:in:)
        hooks.receivePresence = receive(_:for:in:)
        hooks.answer = answer
    }

    private func note(_ element: Element, in step: borrowing Step) throws {
        let marked = element.name == "iq" ? element.firstElement ?? element : element
        let marks = marked.elements.map { "\($0.name)" }.filter { $0.hasPrefix("by-") }
        try TestApp.note("behind", element["id"] ?? "-", marks.joined(separator: " "), in: step)
    }
    func receive(_ message: MessageReceived, in step: borrowing Step) throws -> Bool {
        try note(message.message.element, in: step)
        return false
    }
    func receive(_ presence: Presence, for account: Account, in step: borrowing Step) throws {
        guard presence.id != nil else { return }
        try note(presence.element, in: step)
    }
    func answer(_ request: IQ, for account: Account, in step: borrowing Step) throws -> ModuleAnswer? {
        guard let question = request.payload, question.namespace == TestApp.namespace else { return nil }
        try note(request.element, in: step)
        return .result(question)
    }
}

@Suite(.ownThread, .timeLimit(.minutes(2))) struct StanzaFilterTests {
    private func question(_ attributes: [String: String], want: String = "result") -> Element {
        var element = Element("question", namespace: TestApp.namespace, attributes: ["want": want])
        for (name, value) in attributes { element[name] = ForeignText(value) }
        return element
    }

    private func connected(_ rig: AccountRig) async throws -> Account {
        let account = try await rig.connected { $0.modules = [A(), B(), Behind()] }
        try await account.caughtUp()
        return account
    }

    private func notes(_ account: Account, of id: String) throws -> [String] {
        try account.store.notes("filter").filter { $0.hasSuffix(" \(id)") }
    }

    @Test("X24 messages, presence and requests pass the filters in order, before modules and listeners")
    func incoming() async throws {
        try await withRig { rig in
            let account = try await connected(rig)
            try await account.listen()
            rig.bot.send(
                Message(to: AccountRig.alice, id: "m1", children: [question([:])]).element)
            rig.server.send(
                Presence(from: AccountRig.peer, id: "p1", children: [question([:])]).element,
                to: .jid(AccountRig.alice))
            let own = try #require(rig.server.boundAddresses.first)
            rig.bot.send(IQ(type: .get, to: own, id: "q1", payload: question([:])).element)
            try await rig.saw { $0.event == .received && $0.id == "q1" }
            #expect(try notes(account, of: "m1") == ["a: in message m1", "b: in message m1"])
            #expect(try notes(account, of: "p1") == ["a: in presence p1", "b: in presence p1"])
            #expect(
                try account.store.notes("behind").sorted() == [
                    "m1: by-a by-b", "p1: by-a by-b", "q1: by-a by-b",
                ])
            try await rig.expectAllCounted(account)
        }
    }

    @Test("X24 what a filter stops is counted and reported, and nobody is left waiting for an answer")
    func stopped() async throws {
        try await withRig { rig in
            let account = try await connected(rig)
            let events = EventReader(account)
            try await account.listen()
            let stop = question(["in-b": "stop"])
            rig.bot.send(Message(to: AccountRig.alice, id: "m1", body: "x", children: [stop]).element)
            await events.until("ignored")
            rig.bot.send(Message(to: AccountRig.alice, id: "m2", children: [stop]).element)
            rig.server.send(
                Presence(from: AccountRig.peer, id: "p1", children: [stop]).element,
                to: .jid(AccountRig.alice))
            let own = try #require(rig.server.boundAddresses.first)
            rig.bot.send(IQ(type: .get, to: own, id: "q1", payload: stop).element)
            try await rig.saw { $0.event == .received && $0.id == "q1" }
            #expect(rig.xml(ofID: "q1").first?.contains("service-unavailable") == true)
            #expect(try account.store.notes("behind") == [])
            #expect(try account.store.notes("message") == [])
            try await rig.expectAllCounted(account)
        }
    }

    @Test("X24 an answer that a filter stops ends its request as an error")
    func stoppedAnswer() async throws {
        try await withRig { rig in
            let account = try await connected(rig)
            rig.server.setScript { element, _ in
                guard element["id"] == "q1", let iq = try? IQ(element: element), iq.type.isRequest else {
                    return .pass
                }
                var payload = Element("answer", namespace: TestApp.namespace)
                payload["in-a"] = "stop"
                return .answer([iq.result(payload: payload)].compactMap(\.?.element))
            }
            try await account.ask(rig.question("q1", to: nil))
            try await eventually { try !account.store.notes("ended").isEmpty }
            #expect(
                try account.store.notes("ended").first?.hasPrefix("q1: error undefined-condition") == true)
            try await account.caughtUp()
            #expect(try account.store.notes("ended").count == 1)
        }
    }

    @Test(
        "X24 a filter that throws, or changes whose stanza it is, is undone and reported, and the stanza passes"
    )
    func failing() async throws {
        try await withRig { rig in
            let account = try await connected(rig)
            let events = EventReader(account)
            for (id, wish) in [("m1", "fail"), ("m2", "rename")] {
                rig.bot.send(
                    Message(to: AccountRig.alice, id: id, children: [question(["in-a": wish])]).element)
                await events.until("moduleFailed a")
            }
            try await account.caughtUp()
            #expect(try account.store.notes("behind") == ["m1: by-b", "m2: by-b"])
            #expect(try notes(account, of: "m1") == ["b: in message m1"], "what the filter wrote is undone")
        }
    }

    @Test("X24 what is sent passes the filters in the other order; the sender of what one stops is notified")
    func outgoing() async throws {
        try await withRig { rig in
            let account = try await connected(rig)
            try await account.send(
                Message(to: AccountRig.peer, id: "m1", children: [question([:])]))
            try await rig.saw { $0.event == .received && $0.id == "m1" }
            #expect(try notes(account, of: "m1") == ["b: out message m1", "a: out message m1"])
            let xml = try #require(rig.xml(ofID: "m1").first)
            #expect(xml.contains("<by-b") && xml.contains("<by-a"))
            for wish in ["stop", "fail", "rename"] {
                let asks = question(["out-a": wish])
                let sends: [(Account) async throws -> Void] = [
                    { try await $0.send(Message(to: AccountRig.peer, id: "no", children: [asks])) },
                    { account in
                        try await account.perform {
                            try account.send(
                                Presence(to: AccountRig.peer, id: "no", children: [asks]), in: $0)
                        }
                    },
                    { try await $0.ask(IQ(type: .get, to: AccountRig.peer, id: "no", payload: asks)) },
                ]
                for send in sends {
                    let error = await errorOf { try await send(account) }
                    switch wish {
                    case "stop":
                        #expect((error as? AccountError)?.code == .stoppedByFilter)
                        #expect("\(error!)".contains("'a'") && "\(error!)".contains("it asks for that"))
                    case "rename": #expect((error as? AccountError)?.code == .invalidStanza)
                    default: #expect(error is TestApp.Refusal)
                    }
                }
            }
            try await account.tell("last")
            try await account.caughtUp()
            try await eventually { try account.store.waitingHandlers == 0 }
            #expect(rig.xml(ofID: "no").isEmpty && rig.xml(ofID: "another").isEmpty)
            #expect(try notes(account, of: "no").isEmpty)
        }
    }

    @Test("X24 an answer to somebody else that a filter stops becomes an error: every request is answered")
    func stoppedReply() async throws {
        try await withRig { rig in
            let account = try await connected(rig)
            let own = try #require(rig.server.boundAddresses.first)
            let payload = question(["out-b": "stop"])
            rig.bot.send(IQ(type: .get, to: own, id: "q1", payload: payload).element)
            try await rig.saw { $0.event == .received && $0.id == "q1" }
            #expect(rig.xml(ofID: "q1").first?.contains("service-unavailable") == true)
            #expect(rig.xml(ofID: "q1").count == 1)
            try await rig.expectAllCounted(account)
        }
    }

    /// Takes the id out that the sender gave a message.
    private struct Stripping: AccountModule {
        static let name = "stripping"
        func register(in hooks: inout ModuleHooks) {
            hooks.filterIncoming = filter(incoming:of:in:)
        }
        func filter(incoming stanza: Stanza, of account: Account, in step: borrowing Step) throws
            -> FilteredStanza
        {
            guard case .message(let message) = stanza else { return .passed }
            var element = message.element
            element.children.removeAll {
                if case .element(let child) = $0 { child.name == "origin-id" } else { false }
            }
            return .changed(element)
        }
    }

    @Test("X24 what was sent from here is recognized when it comes back, whatever a filter takes out of it")
    func echo() async throws {
        try await withRig { rig in
            let account = try await rig.connected { $0.modules = [Stripping(), Behind()] }
            try await account.listen()
            let origin = Element("origin-id", namespace: Namespaces.sid, attributes: ["id": "o1"])
            let sent = Message(to: AccountRig.peer, id: "m1", body: "x", children: [origin])
            try await account.send(sent)
            var echo = sent.element
            (echo["from"], echo["to"]) = ("alice@localhost/other", "alice@localhost")
            rig.server.send(echo, to: .jid(AccountRig.alice))
            rig.bot.send(rig.messageToAlice("m2", "y"))
            try await account.caughtUp()
            #expect(try account.store.notes("message") == ["m2: y"])
            #expect(try account.store.notes("behind").count == 2, "modules see it")
        }
    }

    /// Keeps the account unseen.
    private struct Hidden: AccountModule {
        static let name = "hidden"
        func register(in hooks: inout ModuleHooks) {
            hooks.filterOutgoing = filter(outgoing:of:in:)
        }
        func filter(outgoing stanza: Stanza, of account: Account, in step: borrowing Step) throws
            -> FilteredStanza
        {
            if case .presence = stanza { return .stopped("nobody is to know") }
            return .passed
        }
    }

    @Test("X24 a filter may stop the presence that starts a session, and what follows it")
    func hidden() async throws {
        try await withRig { rig in
            let account = try await rig.connected { $0.modules = [Hidden()] }
            let events = EventReader(account)
            try await account.caughtUp()
            try await account.suspend()
            try await account.perform { try account.announceFeatures(in: $0) }
            try await account.connect()
            await events.until("resumed")
            try await account.caughtUp()
            let sent = rig.server.log.entries.filter { $0.event == .received && $0.name == "presence" }
            #expect(sent.isEmpty)
        }
    }
}
