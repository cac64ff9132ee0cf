import TestThreads
import Testing
import XMPPCore
import XMPPTestKit

/// Streams until a session starts, by tables.
@Suite(.ownThread) struct ServerNegotiationTests {
    private func features(_ change: (inout ServerBehavior) -> Void, isSecure: Bool = true) -> Element? {
        var server = ServerDomainHarness(change)
        server.connect(1, isSecure: isSecure)
        server.open(1)
        return server.take(1).first
    }

    @Test("W6 a server offers what the test wants it to offer")
    func offers() {
        let mechanisms = features { $0.mechanisms = ["SCRAM-SHA-256", "SCRAM-SHA-1"] }?
            .child("mechanisms", Namespaces.sasl)?.elements.map(\.text)
        #expect(mechanisms == ["SCRAM-SHA-256", "SCRAM-SHA-1"])
        #expect(features { $0.mechanisms = [] }?.child("mechanisms", Namespaces.sasl)?.elements == [])
        let unprotected = features({ _ in }, isSecure: false)
        #expect(unprotected?.elements.map(\.name) == ["starttls"])
        #expect(unprotected?.firstElement?.child("required", Namespaces.tls) != nil)
        #expect(features({ $0.offersStartTLS = false }, isSecure: false)?.elements == [])
    }

    @Test("W6 stream management can be left out")
    func withoutStreamManagement() {
        var server = ServerDomainHarness { $0.offersStreamManagement = false }
        server.start(1, enable: false)
        server.enable(1)
        #expect(server.take(1) == [ServerSession.failed("feature-not-implemented")])
    }

    @Test("W6 a stream for another domain is refused")
    func wrongDomain() {
        var server = ServerDomainHarness()
        server.connect(1)
        server.open(1, to: "example.org")
        #expect(server.take(1) == [StreamError(.hostUnknown).element])
        #expect(server.closed == [1])
    }

    @Test(
        "W6 nothing is handled before a resource is bound",
        arguments: [
            Message(to: nil, id: "m1", body: "too early").element,
            Element("auth", namespace: Namespaces.sasl, attributes: ["mechanism": "PLAIN"]),
            Element("starttls", namespace: Namespaces.tls),
        ])
    func early(_ element: Element) {
        var server = ServerDomainHarness()
        server.logIn(1)
        server.receive(element, on: 1)
        #expect(server.closed == [1])
        #expect(server.log.last == .disconnected)
    }

    @Test("W6 enabling before binding fails, and the stream goes on")
    func earlyEnable() {
        var server = ServerDomainHarness()
        server.logIn(1)
        server.enable(1)
        #expect(server.take(1) == [ServerSession.failed("unexpected-request")])
        #expect(server.closed.isEmpty)
    }

    @Test("W6 the third wrong password ends the stream")
    func wrongPasswords() {
        var server = ServerDomainHarness()
        server.connect(1)
        server.open(1)
        _ = server.take(1)
        for attempt in 1...3 {
            server.receive(
                Element(
                    "auth", namespace: Namespaces.sasl, attributes: ["mechanism": "PLAIN"],
                    text: "AGFsaWNlAHdyb25n"),
                on: 1)
            let failure = server.take(1).first
            #expect(failure?.firstElement?.name == "not-authorized")
            #expect(server.closed.isEmpty == (attempt < 3))
        }
    }

    @Test(
        "W6 what is no login is refused with the reason",
        arguments: [
            ("X-UNKNOWN", "", "invalid-mechanism"), ("PLAIN", "!", "incorrect-encoding"),
            ("PLAIN", "AA==", "malformed-request"),
        ])
    func malformed(mechanism: String, text: String, condition: String) {
        var server = ServerDomainHarness()
        server.connect(1)
        server.open(1)
        _ = server.take(1)
        server.receive(
            Element("auth", namespace: Namespaces.sasl, attributes: ["mechanism": mechanism], text: text),
            on: 1)
        #expect(server.take(1).first?.firstElement?.name == condition)
    }

    @Test("W6 a resource that was asked for is bound, another one is made up", arguments: ["phone", "", nil])
    func resources(_ wanted: String?) throws {
        var server = ServerDomainHarness()
        server.logIn(1)
        let children = wanted.map { [Element("resource", namespace: Namespaces.bind, text: $0)] } ?? []
        let payload = Element("bind", namespace: Namespaces.bind, children: children)
        server.receive(IQ(type: .set, id: "bind", payload: payload).element, on: 1)
        let answer = try IQ(element: try #require(server.take(1).first))
        let jid = try JID(try #require(answer.payload?.child("jid", Namespaces.bind)).text)
        #expect(jid.local == "alice")
        #expect((jid.resource == "phone") == (wanted == "phone"))
        #expect(jid.isFull)
    }
}
