import AccountTestSupport
import Handlers
import HandlersTestKit
import Synchronization
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount

/// Numbers 1 to 5 of the path for single elements, on tables, without account, thread, socket and server.
@Suite("One inbound step", .ownThread) struct InboundStepTests {
    /// Runs `body` in one step of a store with one account.
    static func withTables<R: Sendable>(
        _ body: @escaping @Sendable (AccountTables, borrowing Step) throws -> R
    ) async throws -> R {
        var result: R?
        try await withTestStore(registry: HandlerRegistry([]), schemas: Account.coreSchemas) { test in
            let tables = AccountTables(
                test.store, account: 1, try JID("romeo@example.net"), requestTimeout: .seconds(60),
                time: .system)
            result = try test.store.step { step in
                try step.execute("INSERT INTO account(id, jid) VALUES (1, 'romeo@example.net')")
                try tables.sessions.create(in: step)
                return try body(tables, step)
            }
        }
        return try #require(result)
    }

    /// Processes elements in one step, after some that were sent.
    ///
    /// - Returns: The step as it is then, why the stream ends, and how many rows wait to be sent.
    @discardableResult
    static func process(
        _ elements: String..., receiver: RecordingReceiver = RecordingReceiver(),
        management: StreamManagement = StreamManagement(), isCounted: Bool = true, isManaged: Bool = true,
        sent: Int = 0,
        prepare: @escaping @Sendable (AccountTables, borrowing Step) throws -> Void = { _, _ in }
    ) async throws -> (inbound: InboundStep, fault: StreamFault?, rows: Int) {
        try await withTables { tables, step in
            for number in 0..<sent { try OutboxTests.append("sent\(number)", in: step) }
            try prepare(tables, step)
            var inbound = InboundStep(
                tables: tables, receiver: receiver, own: try JID("romeo@example.net/orchard"), session: 1,
                isManaged: isManaged, flushMark: .max, now: .zero, management: management)
            var fault: StreamFault?
            for xml in elements where fault == nil {
                let element = try Element(parsing: xml, defaultNamespace: Namespaces.client)
                let progress = try inbound.process(.element(element), isCounted: isCounted, in: step)
                if case .end(let end) = progress { fault = end }
            }
            return (inbound, fault, try tables.outbox.next(session: 1, after: 0, limit: 99, in: step).count)
        }
    }

    static let message = "<message from='juliet@example.com/balcony' type='chat'><body>hi</body></message>"
    static let unknown =
        "<iq type='get' id='1' from='juliet@example.com/balcony'><query xmlns='urn:example:unknown'/></iq>"

    static let elements: [(xml: String, count: UInt32)] = [
        (message, 1), ("<presence from='juliet@example.com'/>", 1), (unknown, 1),
        ("<iq type='result' id='nobody'/>", 1), ("<message from='not an address@@'/>", 1),
        ("<r xmlns='urn:xmpp:sm:3'/>", 0), ("<other xmlns='urn:example:other'/>", 0),
    ]

    @Test("S1 every stanza counts, whatever becomes of it, and nothing else does", arguments: elements)
    func counts(xml: String, count: UInt32) async throws {
        let (inbound, fault, _) = try await Self.process(xml)
        #expect(inbound.management.received == HandledCount(rawValue: count))
        #expect(fault == nil)
    }

    @Test("S1 what came before stream management, or without it, is not counted") func uncounted()
        async throws
    {
        for (isCounted, isManaged) in [(false, true), (true, false)] {
            let (inbound, _, _) = try await Self.process(
                Self.message, isCounted: isCounted, isManaged: isManaged)
            #expect(inbound.management.received == HandledCount(rawValue: 0))
        }
    }

    @Test(
        "X12 a request that nothing understands is refused, a ping is answered, an answer is never answered")
    func answers() async throws {
        let receiver = RecordingReceiver()
        try await Self.process(Self.unknown, receiver: receiver)
        let refused = receiver.replies
        #expect(refused.count == 1)
        #expect(refused.first?["type"] == "error" && refused.first?["to"] == "juliet@example.com/balcony")
        #expect(
            refused.first?.child("error", Namespaces.client)?.child("service-unavailable", Namespaces.stanzas)
                != nil)
        try await Self.process(
            "<iq type='get' id='2' from='example.net'><ping xmlns='urn:xmpp:ping'/></iq>",
            "<iq type='result' id='3'/>", "<iq type='error' id='3' from='a@b'/>", receiver: receiver)
        let pong = receiver.replies.dropFirst()
        #expect(pong.map { $0["type"] } == ["result"] && pong.map { $0["id"] } == ["2"])
    }

    @Test("S10 a count of more than was sent ends the session; a count of what was sent removes it")
    func acknowledged() async throws {
        let good = try await Self.process("<a xmlns='urn:xmpp:sm:3' h='2'/>", sent: 3)
        #expect(good.fault == nil && good.rows == 1)
        #expect(good.inbound.acknowledgementsReceived == 1)
        let bad = try await Self.process("<a xmlns='urn:xmpp:sm:3' h='4'/>", sent: 3)
        #expect(bad.fault?.endsSession == true && bad.rows == 3)
        let none = try await Self.process("<a xmlns='urn:xmpp:sm:3'/>", sent: 3)
        #expect(none.fault?.error.code == .protocolViolation && none.fault?.endsSession == false)
    }

    @Test("X5 a stream error ends the stream and not the session; what came before it stands")
    func streamError() async throws {
        let error =
            "<stream:error xmlns:stream='http://etherx.jabber.org/streams'><conflict xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"
        let (inbound, fault, _) = try await Self.process(Self.message, error, Self.message)
        #expect(fault?.error.code == .streamError && fault?.endsSession == false)
        #expect(inbound.management.received == HandledCount(rawValue: 1))
    }

    @Test("S2 after a resumption the first stanzas are duplicates by their number alone, and are passed over")
    func resumed() async throws {
        // Three arrived, and the second was deferred: the server was told 1 and sends 2 and 3 again.
        let management = StreamManagement(
            received: HandledCount(rawValue: 3), deferred: [HandledCount(rawValue: 2)])
        let receiver = RecordingReceiver()
        let (inbound, _, _) = try await Self.process(
            Self.unknown, Self.unknown, Self.unknown, receiver: receiver, management: management)
        #expect(inbound.management.received == HandledCount(rawValue: 4))
        // The deferred one and the new one are answered, the one that was handled is not.
        #expect(receiver.replies.count == 2)
    }

    @Test("S1 a message is unwrapped, filtered, shown to the modules and then to the listeners, once")
    func order() async throws {
        let receiver = RecordingReceiver()
        let named = "<message from='juliet@example.com/balcony' id='m1'><body>hi</body></message>"
        let (inbound, _, _) = try await Self.process(named, named, receiver: receiver, prepare: Self.listen)
        #expect(inbound.management.received == HandledCount(rawValue: 2))
        #expect(receiver.calls == ["unwrap", "filter message", "modules message", "call 1", "unwrap"])
    }

    @Test("S1 the listeners get no message that is for a module alone") func taken() async throws {
        let receiver = RecordingReceiver(takesMessages: true)
        try await Self.process(Self.message, receiver: receiver, prepare: Self.listen)
        #expect(receiver.calls == ["unwrap", "filter message", "modules message"])
    }

    @Test("X11 an answer ends the handler of its request, and no other answer does") func match() async throws
    {
        let receiver = RecordingReceiver()
        try await Self.process(
            "<iq type='result' id='q' from='mallory@example.com'/>",
            "<iq type='result' id='q' from='juliet@example.com/balcony'/>",
            "<iq type='result' id='q' from='juliet@example.com/balcony'/>", receiver: receiver
        ) { tables, step in
            try tables.requests.insert(
                stanzaID: "q", peer: JID("juliet@example.com/balcony"), session: 1,
                handler: step.bind(TestApp.Answered(name: "q").durable), connectedDeadline: .seconds(60),
                in: step)
        }
        #expect(receiver.calls == ["filter iq", "filter iq", "end 1 result", "filter iq"])
    }

    private static func listen(_ tables: AccountTables, in step: borrowing Step) throws {
        try tables.listeners.set(
            ListenerTable.messages, key: "all", to: AccountRunnerTests.Flaky().durable, in: step)
    }
}

/// Records what an inbound step gives to modules and handlers, and its answers, in order.
final class RecordingReceiver: InboundReceiver {
    private let recorded = Mutex((calls: [String](), replies: [Element]()))
    private let takesMessages: Bool

    init(takesMessages: Bool = false) { self.takesMessages = takesMessages }

    var calls: [String] { recorded.withLock { $0.calls } }
    var replies: [Element] { recorded.withLock { $0.replies } }

    private func record(_ call: String) { recorded.withLock { $0.calls.append(call) } }

    func filtered(incoming stanza: Stanza, in step: borrowing Step) -> Result<Stanza, StoppedStanza> {
        record("filter \(stanza.element.name)")
        return .success(stanza)
    }

    func unwrapped(_ message: Message, in step: borrowing Step) -> UnwrappedMessage {
        record("unwrap")
        return .untouched
    }

    func receive(_ message: InboundMessage, in step: borrowing Step) -> Bool {
        record("modules message")
        return takesMessages
    }

    func recordDeferred(_ message: InboundMessage, in step: borrowing Step) { record("deferred") }
    func receive(_ presence: Presence, in step: borrowing Step) { record("modules presence") }
    func receiveUnreadable(_ root: Element, in step: borrowing Step) { record("unreadable") }
    func answer(_ request: IQ, in step: borrowing Step) -> ModuleAnswer? { nil }
    func isOwn(_ message: Message, originID: ForeignText?, in step: borrowing Step) -> Bool? { nil }
    func neededMarks(in step: borrowing Step) -> NeededMarks { NeededMarks() }

    func call<Context: Sendable>(
        _ handler: HandlerID<Context>, in step: borrowing Step, with context: (Account) -> Context
    ) -> Disposition {
        record("call \(handler.rawValue)")
        return .ended
    }

    func end<Context: Sendable>(
        _ handler: HandlerID<Context>, _ outcome: Outcome, in step: borrowing Step,
        with context: (Account) -> Context, staysIf: () throws -> Bool
    ) -> Disposition {
        record("end \(handler.rawValue) \(outcome)")
        return .ended
    }

    func reply(_ answer: Element, in step: borrowing Step) { recorded.withLock { $0.replies.append(answer) } }
    func closeRequest(_ request: IQ, in step: borrowing Step) -> Bool { true }
}
