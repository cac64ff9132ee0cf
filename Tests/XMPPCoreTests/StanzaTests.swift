import TestThreads
import Testing
import XMPPCore

/// Building and reading IQ, Message and Presence, and every way they can be malformed.
@Suite(.ownThread) struct StanzaTests {
    private let ping = Element("ping", namespace: Namespaces.ping)

    private func element(
        _ name: String, _ attributes: KeyValuePairs<String, (any TextConvertible)?>,
        _ children: [Element] = []
    ) -> Element {
        Element(name, namespace: Namespaces.client, attributes: attributes, children: children)
    }

    private func code(_ body: () throws -> Void) -> ErrorCode<StanzaFormatError>? {
        do {
            try body()
            return nil
        } catch {
            return (error as? StanzaFormatError)?.code
        }
    }

    // MARK: IQ

    @Test("X2 an IQ that was built reads back as the same IQ")
    func iqRoundTrip() throws {
        let iq = IQ(type: .set, to: try JID("a@b/c"), from: try JID("d@e"), id: "x1", payload: ping)
        let again = try IQ(element: iq.element)
        #expect(again == iq)
        #expect(again.type == .set && again.id == "x1" && again.payload == ping)
        #expect(again.to?.description == "a@b/c" && again.from?.description == "d@e")
        #expect(again.error == nil)
    }

    @Test("X37 of an IQ with one child too many the first one counts", arguments: IQ.Kind.allCases)
    func surplusChild(_ kind: IQ.Kind) throws {
        let more = Element("more", namespace: "urn:example:more")
        let iq = try IQ(element: element("iq", ["type": kind.rawValue, "id": "1"], [ping, more]))
        #expect(iq.payload == ping)
    }

    @Test("X2 an IQ must have an id, a known type, valid addresses and, if it asks, a child")
    func iqFormat() {
        #expect(code { _ = try IQ(element: element("iq", ["type": "get"], [ping])) } == .missingID)
        #expect(code { _ = try IQ(element: element("iq", ["type": "get", "id": ""], [ping])) } == .missingID)
        #expect(code { _ = try IQ(element: element("iq", ["id": "1"], [ping])) } == .unknownType)
        #expect(
            code { _ = try IQ(element: element("iq", ["type": "GET", "id": "1"], [ping])) } == .unknownType)
        #expect(code { _ = try IQ(element: element("iq", ["type": "get", "id": "1"])) } == .wrongChildCount)
        #expect(code { _ = try IQ(element: element("iq", ["type": "result", "id": "1"])) } == nil)
        #expect(code { _ = try IQ(element: element("iq", ["type": "result", "id": "1"], [ping])) } == nil)
        #expect(
            code { _ = try IQ(element: element("iq", ["type": "get", "id": "1", "to": "@"], [ping])) }
                == .malformedAddress)
        #expect(
            code { _ = try IQ(element: element("iq", ["type": "get", "id": "1", "from": ""], [ping])) }
                == .malformedAddress)
        #expect(
            code { _ = try IQ(element: element("message", ["type": "get", "id": "1"], [ping])) }
                == .wrongElement)
        #expect(
            code { _ = try IQ(element: Element("iq", namespace: "urn:x", attributes: ["id": "1"])) }
                == .wrongElement)
    }

    @Test("X2 a request is answered to its sender, with its id; answers are never answered")
    func iqAnswers() throws {
        let request = IQ(type: .get, to: try JID("b"), from: try JID("a@b/c"), id: "7", payload: ping)
        let result = try #require(request.result(payload: ping))
        #expect(result.type == .result && result.id == "7" && result.payload == ping)
        #expect(result.to?.description == "a@b/c" && result.from?.description == "b")
        let error = try #require(request.errorReply(StanzaError(.serviceUnavailable)))
        #expect(error.type == .error && error.error?.condition == .serviceUnavailable && error.payload == nil)
        let echoing = try #require(request.errorReply(StanzaError(.serviceUnavailable), echo: true))
        #expect(echoing.payload == ping)
        for answer in [result, error] {
            #expect(answer.result() == nil)
            #expect(answer.errorReply(StanzaError(.badRequest)) == nil)
        }
        #expect(try IQ(element: error.element) == error)
    }

    @Test("X2 the answer stays in the namespace of its request")
    func iqNamespaces() throws {
        let request = IQ(type: .get, id: "7", payload: ping, namespace: Namespaces.component)
        let answer = try #require(request.errorReply(StanzaError(.itemNotFound)))
        #expect(answer.element.namespace == Namespaces.component)
        #expect(answer.element.firstElement?.namespace == Namespaces.component)
        #expect(answer.error?.condition == .itemNotFound)
    }

    @Test("X2 an error IQ without an error has failed all the same")
    func iqErrorWithoutError() throws {
        let iq = try IQ(element: element("iq", ["type": "error", "id": "1"], [ping]))
        #expect(iq.error?.condition == .undefinedCondition)
        #expect(iq.error?.kind == .cancel)
        #expect(iq.payload == ping)
    }

    // MARK: Answers to malformed stanzas

    @Test("X2 a malformed request can be answered, a malformed answer or message never")
    func malformedReplies() throws {
        let request = element("iq", ["type": "get", "id": "1", "from": "a@b/c", "to": "d"])
        do {
            _ = try IQ(element: request)
            Issue.record("an empty get was read")
        } catch {
            let reply = try #require(error.reply(to: request))
            let iq = try IQ(element: reply)
            #expect(iq.type == .error && iq.id == "1" && iq.error?.condition == .badRequest)
            #expect(iq.to?.description == "a@b/c" && iq.from?.description == "d")
            #expect(error.reply(to: element("iq", ["type": "result", "id": "1"])) == nil)
            #expect(error.reply(to: element("iq", ["type": "error", "id": "1"])) == nil)
            #expect(error.reply(to: element("iq", ["type": "get"])) == nil)
            #expect(error.reply(to: element("message", ["id": "1"])) == nil)
            #expect(error.reply(to: element("iq", ["type": "nonsense", "id": "1"])) != nil)
        }
    }

    @Test("X2 a malformed address is answered with jid-malformed and names its cause")
    func malformedAddress() {
        do {
            _ = try Message(element: element("message", ["from": "@"]))
            Issue.record("a message from '@' was read")
        } catch {
            #expect(error.stanzaError.condition == .jidMalformed)
            #expect((error.cause as? JIDError)?.part == .localpart)
            #expect(error.description.contains("'from'"))
            #expect(error.description.contains("localpart"))
        }
    }

    // MARK: Message

    @Test("X2 a message that was built reads back as the same message")
    func messageRoundTrip() throws {
        let message = Message(
            to: try JID("a@b"), from: try JID("c@d/e"), type: .groupchat, id: "m", body: "hi",
            children: [Element("x", namespace: "u")])
        #expect(try Message(element: message.element) == message)
        #expect(message.body == "hi" && message.type == .groupchat && message.id == "m")
        #expect(message.element.child("x", "u") != nil)
        #expect(Message(to: nil).body == nil)
    }

    @Test(
        "X2 a message of unknown or missing type is a normal one",
        arguments: [nil, "", "fancy", "normal", "Chat"])
    func messageTypes(_ type: String?) throws {
        #expect(try Message(element: element("message", ["type": type])).type == .normal)
    }

    @Test("X2 every message type of the RFC is read", arguments: Message.Kind.allCases)
    func knownMessageTypes(_ kind: Message.Kind) throws {
        #expect(try Message(element: element("message", ["type": kind.rawValue])).type == kind)
    }

    @Test("X2 the body without a language goes first, and a body in another namespace is none")
    func bodies() throws {
        let german = element("body", ["xml:lang": "de"]).withText("hallo")
        let plain = element("body", [:]).withText("hello")
        let foreign = Element("body", namespace: "http://www.w3.org/1999/xhtml", text: "<b>")
        #expect(try Message(element: element("message", [:], [foreign, german, plain])).body == "hello")
        #expect(try Message(element: element("message", [:], [foreign, german])).body == "hallo")
        #expect(try Message(element: element("message", [:], [foreign])).body == nil)
    }

    @Test("X2 a message error carries its condition")
    func messageError() throws {
        let error = StanzaError(.recipientUnavailable)
        let message = try Message(element: element("message", ["type": "error"], [error.element]))
        #expect(message.error == error)
        #expect(try Message(element: element("message", ["type": "chat"], [error.element])).error == nil)
    }

    // MARK: Presence

    @Test("X2 a presence that was built reads back as the same presence")
    func presenceRoundTrip() throws {
        for kind in Presence.Kind.allCases.map(Optional.some) + [nil] {
            let presence = Presence(type: kind, to: try JID("a@b"), from: try JID("c"), id: "p")
            #expect(try Presence(element: presence.element) == presence)
        }
        #expect(Presence().element.attributes.isEmpty)
        #expect(Presence().type == nil)
    }

    @Test("X2 a presence of unknown type is malformed")
    func presenceTypes() {
        #expect(
            code { _ = try Presence(element: element("presence", ["type": "available"])) } == .unknownType)
        #expect(code { _ = try Presence(element: element("presence", ["type": ""])) } == .unknownType)
    }

    @Test("X2 a priority is between -128 and 127, or 0")
    func priorities() throws {
        for (text, priority) in [("5", 5), ("-128", -128), ("127", 127), ("128", 0), ("x", 0), ("", 0)] {
            let child = element("priority", [:]).withText(text)
            #expect(try Presence(element: element("presence", [:], [child])).priority == Int8(priority))
        }
        #expect(Presence().priority == 0)
    }

    // MARK: Stanza

    @Test(
        "X12 of several ids of one archive the last counts: a server may leave a forged one in front of its own"
    )
    func archiveID() throws {
        func id(_ by: String, _ id: String) -> Element {
            Element("stanza-id", namespace: Namespaces.sid, attributes: ["by": by, "id": id])
        }
        let own = try JID("romeo@montague.example")
        let message = Message(
            to: own,
            children: [id("\(own)", "forged"), id("\(own)", "kept"), id("\(own)/orchard", "no archive")])
        #expect(message.stanzaID(by: own) == "kept")
        #expect(message.stanzaID(by: own.domainJID) == nil)
    }

    @Test("X2 only iq, message and presence in a content namespace are stanzas")
    func stanzas() throws {
        #expect(try Stanza(IQ(type: .get, id: "1", payload: ping).element)?.id == "1")
        #expect(try Stanza(Message(to: try JID("a"), id: "2").element)?.to?.domain == "a")
        #expect(try Stanza(Presence(from: try JID("b")).element)?.from?.domain == "b")
        #expect(try Stanza(Element("r", namespace: Namespaces.sm)) == nil)
        #expect(try Stanza(Element("features", namespace: Namespaces.stream)) == nil)
        #expect(try Stanza(Element("message", namespace: "urn:x")) == nil)
        #expect(try Stanza(Element("Message", namespace: Namespaces.client)) == nil)
        #expect(code { _ = try Stanza(element("iq", ["type": "get"])) } == .missingID)
        #expect(Stanza.isStanza(element("iq", [:])))
        for namespace in [Namespaces.server, Namespaces.component] {
            #expect(try Stanza(Element("presence", namespace: namespace)) != nil)
        }
    }
}

extension Element {
    fileprivate func withText(_ text: String) -> Element {
        var copy = self
        copy.append(text: text)
        return copy
    }
}
