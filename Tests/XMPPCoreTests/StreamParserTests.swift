import TestThreads
import Testing
import ParserVerifier
import XMPPCore

/// Streams that look as servers send them, each through the verifier.
@Suite(.ownThread) struct StreamParserTests {
    @Test("X3 a stream header becomes its own event, with attributes and namespace")
    func header() throws {
        let outcome = try ParserVerifier.verify([testHeader])
        guard case .opened(let header) = outcome.events.first else {
            Issue.record("no header: \(outcome)")
            return
        }
        #expect(header.has(name: "stream", namespace: "http://etherx.jabber.org/streams"))
        #expect(header["id"] == "s1")
        #expect(header["from"] == "example.org")
        #expect(header["xml:lang"] == "en")
        #expect(header.attributes.count == 5)
        #expect(header.children.isEmpty)
        #expect(outcome.events.count == 1)
    }

    @Test("X3 features with the stream's prefix are in the namespace of streams")
    func features() throws {
        let outcome = try ParserVerifier.verify([
            testHeader,
            "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls>"
                + "<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>SCRAM-SHA-256</mechanism>"
                + "<mechanism>SCRAM-SHA-1</mechanism></mechanisms></stream:features>",
        ])
        let features = try #require(outcome.elements.first)
        #expect(features.has(name: "features", namespace: Namespaces.stream))
        let mechanisms = try #require(features.child("mechanisms", Namespaces.sasl))
        #expect(
            mechanisms.children("mechanism", Namespaces.sasl).map(\.text) == ["SCRAM-SHA-256", "SCRAM-SHA-1"])
        #expect(features.child("starttls", Namespaces.tls)?.child("required", Namespaces.tls) != nil)
        #expect(features.child("starttls", Namespaces.client) == nil)
    }

    @Test("X3 a header may choose its prefixes as it likes")
    func unusualPrefixes() throws {
        let outcome = try ParserVerifier.verify([
            "<s:stream xmlns:s=\"http://etherx.jabber.org/streams\" xmlns:c=\"jabber:client\" version=\"1.0\">",
            "<s:features/><c:iq type='result' id='1'/><c:message><c:body>hi</c:body></c:message></s:stream>",
        ])
        #expect(outcome.code == nil)
        #expect(outcome.elements.map(\.name) == ["features", "iq", "message"])
        #expect(
            outcome.elements.map(\.namespace) == [Namespaces.stream, Namespaces.client, Namespaces.client])
        #expect(outcome.events.last == .closed)
    }

    @Test("X3 a SASL exchange is read piece by piece")
    func sasl() throws {
        let outcome = try ParserVerifier.verify([
            testHeader, "<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>cj1meWtvK2QybGJi",
            "RmdPTlJ2OXFreGRhd0w=</challenge>", " ",
            "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>dj0=</success>",
        ])
        #expect(outcome.elements.map(\.text) == ["cj1meWtvK2QybGJiRmdPTlJ2OXFreGRhd0w=", "dj0="])
        #expect(outcome.elements.allSatisfy { $0.namespace == Namespaces.sasl })
    }

    @Test("X3 the five entities and character references are replaced, in text and in values")
    func entities() throws {
        let outcome = try ParserVerifier.verify([
            testHeader,
            "<message id='&lt;&amp;&gt;&quot;&apos;&#38;&#x41;&#10;'><body>a&amp;b &lt;i&gt; &quot;&apos; &#x1F600;&#65;</body></message>",
        ])
        let message = try #require(outcome.elements.first)
        #expect(message["id"] == "<&>\"'&A\n")
        #expect(message.child("body", Namespaces.client)?.text == "a&b <i> \"' 😀A")
        #expect(message.child("body", Namespaces.client)?.children.count == 1)
    }

    @Test("X3 a greater-than sign inside a value does not end the tag")
    func greaterThanInValue() throws {
        let outcome = try ParserVerifier.verify([
            testHeader, "<message a='1>2' b=\"/>\" c='x>'><body d='>/body>'>a>b</body></message><presence/>",
        ])
        #expect(outcome.elements.count == 2)
        #expect(outcome.elements.first?["a"] == "1>2")
        #expect(outcome.elements.first?["b"] == "/>")
        #expect(outcome.elements.first?.child("body", Namespaces.client)?["d"] == ">/body>")
    }

    @Test("X3 CDATA is text, joined with what stands beside it")
    func cdata() throws {
        let outcome = try ParserVerifier.verify([
            testHeader, "<message><body>a<![CDATA[<b>&amp;]] ]>]]]]><![CDATA[]]>&gt;c</body></message>",
        ])
        let body = try #require(outcome.elements.first?.child("body", Namespaces.client))
        #expect(body.text == "a<b>&amp;]] ]>]]>c")
        #expect(body.children.count == 1)
    }

    @Test("X3 emoji and every length of UTF-8 pass wherever they are cut")
    func unicode() throws {
        let text = "é ß — 漢字 👩‍👩‍👧‍👦 🏳️‍🌈 \u{10FFFF}\u{E000}\u{FFFD}"
        let outcome = try ParserVerifier.verify([
            testHeader, "<message id='\(text)'><body>\(text)</body></message>",
        ])
        #expect(outcome.elements.first?["id"] == text)
        #expect(outcome.elements.first?.child("body", Namespaces.client)?.text == text)
    }

    @Test("X3 nested namespaces, prefixes on attributes and undeclared defaults are resolved")
    func nestedNamespaces() throws {
        let outcome = try ParserVerifier.verify([
            testHeader,
            "<iq type='result' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='n'><item id='i'>"
                + "<x:entry xmlns:x='urn:x' x:kind='k' kind='plain'><plain xmlns=''><y xmlns='urn:y' xml:lang='de'/></plain>"
                + "<x:again/></x:entry></item></items></pubsub></iq>",
        ])
        let entry = try #require(
            outcome.elements.first?.child("pubsub", Namespaces.pubsub)?.child("items", Namespaces.pubsub)?
                .child("item", Namespaces.pubsub)?.child("entry", "urn:x"))
        #expect(entry["kind"] == "plain")
        #expect(entry["kind", namespace: "urn:x"] == "k")
        #expect(entry.child("plain", "")?.child("y", "urn:y")?["xml:lang"] == "de")
        #expect(entry.child("again", "urn:x") != nil)
        #expect(entry.child("again", Namespaces.pubsub) == nil)
    }

    @Test("X3 white space between stanzas is dropped, inside stanzas it is kept")
    func whiteSpace() throws {
        let outcome = try ParserVerifier.verify([
            testHeader, " \n", "\t\r\n", "<message> <body> \n</body></message>", " ", " ", "<presence/>",
            "\n",
            "</stream:stream>", "\n",
        ])
        #expect(outcome.code == nil)
        #expect(outcome.elements.first?.children.first == .text(" "))
        #expect(outcome.elements.first?.child("body", Namespaces.client)?.text == " \n")
        #expect(outcome.events.last == .closed)
        #expect(outcome.events.count == 4)
    }

    @Test("X3 line ends are normalized as XML wants it")
    func lineEnds() throws {
        let outcome = try ParserVerifier.verify([
            testHeader, "<message a='1\r\n2\t3'>\r\na\rb\nc&#13;</message>",
        ])
        #expect(outcome.elements.first?.text == "\na\nb\nc\r")
        #expect(outcome.elements.first?["a"] == "1 2 3")
    }

    @Test("X3 stream errors and nonzas are first-level elements like any other")
    func streamError() throws {
        let outcome = try ParserVerifier.verify([
            testHeader,
            "<r xmlns='urn:xmpp:sm:3'/><a xmlns='urn:xmpp:sm:3' h='4294967295'/><stream:error>"
                + "<conflict xmlns='urn:ietf:params:xml:ns:xmpp-streams'/><text xmlns='urn:ietf:params:xml:ns:xmpp-streams'"
                + " xml:lang='en'>Replaced by new connection</text></stream:error></stream:stream>",
        ])
        #expect(outcome.elements.prefix(2).map(\.namespace) == [Namespaces.sm, Namespaces.sm])
        let error = try #require(outcome.elements.last.flatMap { StreamError($0) })
        #expect(error.condition == .conflict)
        #expect(error.text == "Replaced by new connection")
        #expect(outcome.events.last == .closed)
    }

    @Test("X3 a stream that is opened and closed in one tag gives both events")
    func emptyStream() throws {
        let outcome = try ParserVerifier.verify([String(testHeader.dropLast()) + "/>"])
        #expect(outcome.events.count == 2)
        #expect(outcome.events.last == .closed)
    }

    @Test("X3 many stanzas in one read come out in order, and none is held back")
    func manyStanzas() throws {
        let parser = try StreamParser()
        var stream = testHeader
        for number in 0..<5000 {
            stream += "<message id='m\(number)'><body>number \(number) &amp; on</body></message>"
        }
        let events = try parser.parse(stream)
        #expect(events.count == 5001)
        let ids = events.dropFirst().map { event -> ForeignText? in
            if case .element(let element) = event { element["id"] } else { nil }
        }
        #expect(ids == (0..<5000).map { "m\($0)" as ForeignText? })
        #expect(try parser.parse("<presence/>").count == 1)
    }
}
