import Handlers
import HandlersTestKit
import Testing
import XMPPCore

@testable import XMPPAccount

/// Numbers 1 to 5 of the path for single elements, without thread, socket and server.
@Suite("One inbound step") struct InboundStepTests {
    /// Processes elements in one step.
    ///
    /// - Returns: The step as it is then, why the stream ends, and what waits to be sent.
    static func process(
        _ elements: String..., management: StreamManagement = StreamManagement(), isCounted: Bool = true,
        isManaged: Bool = true, sent: Int = 0
    ) async throws -> (inbound: InboundStep, fault: StreamFault?, outbox: [Element]) {
        var result: (InboundStep, StreamFault?, [Element])?
        try await withTestStore(registry: HandlerRegistry([]), schemas: Account.coreSchemas) { test in
            let account = try Account(
                AccountConfiguration(jid: JID("romeo@example.net"), password: "unused"), store: test.store)
            result = try test.store.step { step in
                for number in 0..<sent {
                    try OutboxTests.append("sent\(number)", account: account.id, in: step)
                }
                var inbound = InboundStep(
                    account: account, own: try JID("romeo@example.net/orchard"), session: 1,
                    isManaged: isManaged, flushMark: .max, now: .zero, management: management)
                var fault: StreamFault?
                for xml in elements where fault == nil {
                    let element = try Element(parsing: xml, defaultNamespace: Namespaces.client)
                    if case .end(let end) = try inbound.process(
                        .element(element), isCounted: isCounted, in: step)
                    {
                        fault = end
                    }
                }
                let rows = try account.outbox.next(session: 1, after: 0, limit: 99, in: step)
                let unsent = try step.all("SELECT xml FROM outbox WHERE session IS NULL ORDER BY seq") {
                    (row) throws(HandlerError) in row.blob(0)
                }
                let xml = rows.map(\.xml) + unsent
                return (
                    inbound, fault,
                    try xml.map {
                        try Element(
                            parsing: String(decoding: $0, as: UTF8.self), defaultNamespace: Namespaces.client)
                    }
                )
            }
            await account.close()
        }
        return try #require(result)
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
        let refused = try await Self.process(Self.unknown).outbox
        #expect(refused.count == 1)
        #expect(refused.first?["type"] == "error" && refused.first?["to"] == "juliet@example.com/balcony")
        #expect(
            refused.first?.child("error", Namespaces.client)?.child("service-unavailable", Namespaces.stanzas)
                != nil)
        let ping = "<iq type='get' id='2' from='example.net'><ping xmlns='urn:xmpp:ping'/></iq>"
        let pong = try await Self.process(ping).outbox
        #expect(pong.map { $0["type"] } == ["result"] && pong.map { $0["id"] } == ["2"])
        #expect(try await Self.process("<iq type='result' id='3'/>").outbox.isEmpty)
        #expect(try await Self.process("<iq type='error' id='3' from='a@b'/>").outbox.isEmpty)
    }

    @Test("S10 a count of more than was sent ends the session; a count of what was sent removes it")
    func acknowledged() async throws {
        let good = try await Self.process("<a xmlns='urn:xmpp:sm:3' h='2'/>", sent: 3)
        #expect(good.fault == nil && good.outbox.count == 1)
        #expect(good.inbound.acknowledgementsReceived == 1)
        let bad = try await Self.process("<a xmlns='urn:xmpp:sm:3' h='4'/>", sent: 3)
        #expect(bad.fault?.endsSession == true && bad.outbox.count == 3)
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
        let (inbound, _, outbox) = try await Self.process(
            Self.unknown, Self.unknown, Self.unknown, management: management)
        #expect(inbound.management.received == HandledCount(rawValue: 4))
        // The deferred one and the new one are answered, the one that was handled is not.
        #expect(outbox.count == 2)
    }
}
