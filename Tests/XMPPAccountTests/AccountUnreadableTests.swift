import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

@testable import XMPPAccount

/// Stanzas that the parser cannot read: each is counted, reported and answered, and the stream goes on.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct AccountUnreadableTests {
    private func bad(_ kind: String, id: String = "bad") -> Element {
        Message(to: AccountRig.alice, id: id, body: "x", children: [Damage.mark(kind)]).element
    }

    private func iq(_ type: IQ.Kind, _ id: String, _ kind: String) -> Element {
        let payload = Element("x", namespace: TestApp.namespace, children: [Damage.mark(kind)])
        return IQ(type: type, to: AccountRig.alice, id: id, payload: payload).element
    }

    private func resumptions(_ rig: AccountRig) -> Int {
        rig.server.log.entries.count { $0.event == .resumed }
    }

    @Test(
        "X18 a hundred messages in a row that cannot be read cost only themselves, each counted and reported",
        arguments: Damage.kinds.map(\.kind))
    func messages(kind: String) async throws {
        try await withRig { rig in
            Damage.write(on: rig.server)
            let account = try await rig.connected()
            try await account.listen()
            let ignored = account.ignored()
            for number in 1...100 { rig.bot.send(bad(kind, id: "bad\(number)")) }
            rig.bot.send(rig.messageToAlice("good", "hello"))
            try await eventually { try account.store.notes("message") == ["good: hello"] }
            try await eventually { ignored.withLock { $0.count } == 100 }
            let (first, last) = ignored.withLock { ($0[0], $0[99]) }
            #expect(
                first.hasPrefix("bad1: <message/> of ") && last.hasPrefix("bad100: "), "\(first.prefix(80))")
            try await account.caughtUp()
            #expect(resumptions(rig) == 0)
            try await rig.expectAllCounted(account)
        }
    }

    @Test("X18 presence that cannot be read is counted and not answered; a request is answered with an error")
    func requests() async throws {
        try await withRig { rig in
            Damage.write(on: rig.server)
            let answers = Kept<[String]>([])
            rig.server.addBot(jid: try JID("other@localhost/x")) { stanza, _ in
                let error = stanza.child("error", Namespaces.client).flatMap { StanzaError($0) }
                let to = stanza["from"].flatMap { try? JID($0) }?.bare.description ?? "-"
                answers.withLock {
                    $0.append(
                        "\(stanza.name) \(stanza["id"] ?? "-") \(error?.condition.rawValue ?? "-") \(to)")
                }
            }
            let account = try await rig.connected()
            let full = try #require(rig.server.boundAddresses.first { $0.bare == AccountRig.alice })
            let ignored = account.ignored()
            for element in [
                iq(.get, "small", "xml"), iq(.set, "deep", "depth 70"), iq(.result, "unasked", "xml"),
                iq(.error, "unasked-error", "xml"),
                Presence(to: full, id: "p", children: [Damage.mark("xml")]).element,
                iq(.get, "last", "comment"),
            ] {
                var element = element
                element["to"] = ForeignText(full.description)
                rig.server.send(element, from: try JID("other@localhost/x"))
            }
            try await eventually { answers.withLock { $0.count } == 3 }
            #expect(
                answers.withLock { $0 } == [
                    "iq small bad-request alice@localhost", "iq deep policy-violation alice@localhost",
                    "iq last bad-request alice@localhost",
                ])
            try await eventually { ignored.withLock { $0.count } == 6 }
            try await account.caughtUp()
            try await rig.expectAllCounted(account)
            #expect(resumptions(rig) == 0)
        }
    }

    @Test("X18 X37 an unreadable answer ends its request with an error, one with a child too many does not")
    func answers() async throws {
        try await withRig { rig in
            Damage.write(on: rig.server)
            let service = try JID("service@localhost/s")
            rig.server.addBot(jid: service) { stanza, bot in
                // Another one cannot end it.
                var forged = self.iq(.result, stanza["id"]?.string ?? "", "xml")
                forged["to"] = stanza["from"]
                rig.bot.send(forged)
                var answer = forged
                if stanza["id"] == "q2" {
                    let child = Element("a", namespace: TestApp.namespace)
                    answer.children = [.element(child), .element(child)]
                }
                bot.send(answer)
            }
            let account = try await rig.connected()
            for id in ["q1", "q2"] { try await account.ask(rig.question(id, to: service)) }
            try await eventually { try account.store.notes("ended").count == 2 }
            #expect(
                try account.store.notes("ended") == [
                    "q1: error undefined-condition from service@localhost/s",
                    "q2: result a from service@localhost/s",
                ])
            #expect(resumptions(rig) == 0)
        }
    }

    @Test("X18 what is no stanza and cannot be read changes nothing; a stream error ends the stream")
    func nonzas() async throws {
        try await withRig { rig in
            let account = try await rig.connected()
            try await account.listen()
            try await account.caughtUp()
            let ignored = account.ignored()
            let events = EventReader(account)
            for nonza in [
                "<a xmlns='urn:xmpp:sm:3' h='4711'><x:y/></a>", "<r xmlns='urn:xmpp:sm:3'><x:y/></r>",
                "<failed xmlns='urn:xmpp:sm:3'><x:y/></failed>",
                "<resumed xmlns='urn:xmpp:sm:3' h='9' x:y=''/>",
            ] { rig.server.send(raw: nonza, to: .everyone) }
            rig.bot.send(rig.messageToAlice("good", "hello"))
            try await eventually { try account.store.notes("message") == ["good: hello"] }
            try await eventually { ignored.withLock { $0.count } == 4 }
            try await account.caughtUp()
            try await rig.expectAllCounted(account)
            #expect(resumptions(rig) == 0)
            rig.server.send(raw: "<stream:error><x:y/></stream:error>", to: .everyone)
            await events.until("suspended")
            #expect(events.seen.last == "suspended stream-error")
        }
    }

    @Test(
        "X18 what cannot be read while the stream is being opened ends the attempt with an error that says so"
    )
    func opening() async throws {
        try await withRig(reconnects: false) { rig in
            rig.server.setWriting {
                $0.name == "features" ? "<stream:features><x:y/></stream:features>" : nil
            }
            let account = try rig.account()
            let error = await errorOf { try await account.connect() } as? AccountError
            #expect(error?.code == .protocolViolation)
            #expect(error?.description.contains("<features/> of") == true, "\(String(describing: error))")
            rig.server.setWriting(nil)
            try await account.connect()
        }
    }

    @Test("X18 a stanza that cannot be read and comes before stream management has started is passed over")
    func uncounted() async throws {
        try await withRig { rig in
            rig.server.setWriting { element in
                guard element.name == "enabled" else { return nil }
                let enabled = String(decoding: Serializer().bytes(element), as: UTF8.self)
                return "<message from='x@localhost' id='early'><x:y/></message>" + enabled
            }
            let account = try rig.account()
            let ignored = account.ignored()
            try await account.connect()
            try await account.caughtUp()
            try await eventually { ignored.withLock { $0.map { String($0.prefix(8)) } } == ["early: <"] }
            try await rig.expectAllCounted(account)
        }
    }

    // MARK: No boundary

    @Test(
        "X18 a stanza without an end breaks the stream, and when it comes again it is counted and passed over"
    )
    func endless() async throws {
        try await withRig { rig in
            Damage.write(on: rig.server)
            let account = try await rig.connected()
            try await account.listen()
            try await account.caughtUp()
            let ignored = account.ignored()
            rig.bot.send(bad(Damage.endless))
            rig.bot.send(rig.messageToAlice("good", "hello"))
            try await eventually { try account.store.notes("message") == ["good: hello"] }
            #expect(resumptions(rig) == 2, "once with the same damage, once behind it")
            #expect(
                ignored.withLock { $0.map { String($0.prefix(31)) } } == ["bad: it cannot be read, again, "])
            try await account.caughtUp()
            try await rig.expectAllCounted(account)
        }
    }

    @Test("X18 damage that does not come again costs nothing: the stanza is taken in after the resumption")
    func damagedOnce() async throws {
        try await withRig { rig in
            let written = Kept(0)
            rig.server.setWriting { element in
                guard element["id"] == "m1" else { return nil }
                let isFirst = written.withLock { count in
                    count += 1
                    return count == 1
                }
                return isFirst ? "<message from='x@localhost' id='m1'><body></message>" : nil
            }
            let account = try await rig.connected()
            try await account.listen()
            rig.bot.send(rig.messageToAlice("m1", "one"))
            rig.bot.send(rig.messageToAlice("m2", "two"))
            try await eventually { try account.store.notes("message").count == 2 }
            #expect(try account.store.notes("message") == ["m1: one", "m2: two"])
            #expect(resumptions(rig) == 1)
        }
    }

    @Test(
        "X18 what a stream ended with is stored: a process that comes after another one passes the same over")
    func endlessInNextProcess() async throws {
        try await withRig(reconnects: false) { rig in
            Damage.write(on: rig.server)
            let first = try await rig.connected()
            try await first.listen()
            try await first.caughtUp()
            let events = EventReader(first)
            rig.bot.send(bad(Damage.endless))
            rig.bot.send(rig.messageToAlice("good", "hello"))
            await events.until("suspended")
            await rig.closeAccounts()
            let second = try rig.account()
            let again = EventReader(second)
            try await second.connect()
            await again.until("suspended")
            await rig.closeAccounts()
            let third = try await rig.connected()
            try await eventually { try third.store.notes("message") == ["good: hello"] }
            #expect(resumptions(rig) == 2)
            try await third.caughtUp()
            try await rig.expectAllCounted(third)
        }
    }
}
