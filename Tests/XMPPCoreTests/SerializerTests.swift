import TestThreads
import Testing
import HandlersTestKit
import ParserVerifier
import XMPPCore

@Suite(.ownThread) struct SerializerTests {
    private func inStream(_ element: Element) -> String {
        String(decoding: Serializer().bytes(element), as: UTF8.self)
    }

    /// Reads bytes back inside a stream.
    private func read(_ bytes: [UInt8], contentNamespace: String = Namespaces.client) throws -> [Element] {
        let header = Serializer.streamHeader(to: "b", contentNamespace: contentNamespace)
        return try ParserVerifier.outcome(of: [header, bytes]).elements
    }

    @Test("X3 in a stream, stanzas carry no namespace and features keep their prefix")
    func inStreamForm() {
        let message = Message(to: try? JID("a@b"), id: "1", body: "hi").element
        #expect(inStream(message) == "<message type='chat' id='1' to='a@b'><body>hi</body></message>")
        let sm = Element("r", namespace: Namespaces.sm)
        #expect(inStream(sm) == "<r xmlns='urn:xmpp:sm:3'/>")
        let error = StreamError(.conflict).element
        #expect(
            inStream(error)
                == "<stream:error><conflict xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>")
    }

    @Test("X3 standing alone, an element declares what it needs, once")
    func standaloneForm() {
        let iq = Element(
            "iq", namespace: Namespaces.client,
            children: [
                Element(
                    "ping", namespace: Namespaces.ping, children: [Element("x", namespace: Namespaces.ping)]),
                Element("features", namespace: Namespaces.stream),
            ])
        #expect(
            iq.serialized() == "<iq xmlns='jabber:client'><ping xmlns='urn:xmpp:ping'><x/></ping>"
                + "<features xmlns='http://etherx.jabber.org/streams'/></iq>")
        #expect(iq.serialized(defaultNamespace: Namespaces.client).hasPrefix("<iq><ping"))
        #expect(iq.description == iq.serialized())
    }

    @Test("X3 an element without namespace undeclares the one around it")
    func emptyNamespace() {
        let outer = Element(
            "a", namespace: "u",
            children: [Element("b", namespace: "", children: [Element("c", namespace: "u")])])
        #expect(outer.serialized() == "<a xmlns='u'><b xmlns=''><c xmlns='u'/></b></a>")
        #expect(inStream(Element("a", namespace: "")) == "<a xmlns=''/>")
    }

    @Test("X3 what XML reserves is escaped, in text and in values")
    func escapes() throws {
        let nasty = "<>&'\"]]>\t\n\r é 🙂"
        let element = Element("a", namespace: Namespaces.client, attributes: ["b": nasty], text: nasty)
        #expect(
            inStream(element)
                == "<a b='&lt;&gt;&amp;&apos;&quot;]]&gt;&#9;&#10;&#13; é 🙂'>&lt;&gt;&amp;'\"]]&gt;\t\n&#13; é 🙂</a>"
        )
        #expect(try read(Serializer().bytes(element)) == [element])
    }

    @Test("X3 characters that XML cannot hold become U+FFFD, and nothing else is lost")
    func forbiddenCharacters() throws {
        let element = Element(
            "a", namespace: "u", attributes: ["b": "\0x\u{1F}\u{FFFE}"],
            text: "\u{1}y\u{FFFF}\u{B}\u{FFFD}\u{7F}\u{EFFF}")
        let bytes = Serializer().bytes(element)
        let back = try #require(try read(bytes).first)
        #expect(back["b"] == "\u{FFFD}x\u{FFFD}\u{FFFD}")
        #expect(back.text == "\u{FFFD}y\u{FFFD}\u{FFFD}\u{FFFD}\u{7F}\u{EFFF}")
    }

    @Test("X3 a name that is none cannot inject markup")
    func names() throws {
        for (name, written) in [
            ("a b='c'><d", "a_b__c___d"), ("", "_"), ("1a", "_a"), ("a:b", "a_b"), ("-", "_"), ("é", "é"),
            ("a\0", "a_"),
            ("\u{FFFF}", "_"), ("a·", "a·"), ("x.y-z_9", "x.y-z_9"),
        ] {
            let element = Element(name, namespace: "u", attributes: [name: "v"], text: "t")
            let back = try #require(try read(Serializer().bytes(element)).first)
            #expect(back.name == written)
            #expect(back.attributes.map(\.name) == [written])
            #expect(back.children == [.text("t")])
        }
    }

    @Test("X3 an attribute that stands twice, or declares a namespace, is left out")
    func illegalAttributes() throws {
        var element = Element("a", namespace: "u", attributes: ["x": "1", "xmlns": "evil"])
        element.attributes.append(Element.Attribute("x", value: "2"))
        element.attributes.append(Element.Attribute("y", namespace: Namespaces.xmlns, value: "evil"))
        #expect(element.serialized() == "<a xmlns='u' x='1'/>")
        #expect(try read(Serializer().bytes(element)).count == 1)
        #expect(
            try read(Serializer().bytes(Element("a", namespace: Namespaces.xmlns))).first?.namespace == "")
    }

    @Test("X3 attributes with namespaces get prefixes, and xml:lang keeps its own")
    func prefixedAttributes() throws {
        var element = Element("a", namespace: "u", attributes: ["xml:lang": "de"])
        element["k", namespace: "urn:k"] = "1"
        element["k", namespace: "urn:l'"] = "2"
        element["s", namespace: Namespaces.stream] = "3"
        #expect(
            inStream(element)
                == "<a xmlns='u' xml:lang='de' xmlns:ns0='urn:k' ns0:k='1' xmlns:ns1='urn:l&apos;' ns1:k='2' stream:s='3'/>"
        )
        #expect(try read(Serializer().bytes(element)) == [element])
        #expect(try read(Array(element.serialized().utf8)).first?["s", namespace: Namespaces.stream] == "3")
    }

    @Test("X3 the stream header carries what it is given, escaped")
    func header() throws {
        let bytes = Serializer.streamHeader(to: "b.example", from: "a'<@b", id: "x&y", language: "en")
        let outcome = try ParserVerifier.outcome(of: [bytes, Serializer.streamEnd])
        guard case .opened(let header) = outcome.events.first else {
            Issue.record("no header")
            return
        }
        #expect(header["to"] == "b.example")
        #expect(header["from"] == "a'<@b")
        #expect(header["id"] == "x&y")
        #expect(header["xml:lang"] == "en")
        #expect(header["version"] == "1.0")
        #expect(outcome.events.last == .closed)
        #expect(
            String(decoding: bytes, as: UTF8.self).hasPrefix(
                "<?xml version='1.0'?><stream:stream xmlns='jabber:client'"))
    }

    @Test("X3 a component's stream has its own content namespace")
    func componentStream() throws {
        let serializer = Serializer(contentNamespace: Namespaces.component)
        let iq = IQ(type: .result, id: "1", payload: nil, namespace: Namespaces.component).element
        #expect(String(decoding: serializer.bytes(iq), as: UTF8.self) == "<iq type='result' id='1'/>")
        #expect(try read(serializer.bytes(iq), contentNamespace: Namespaces.component) == [iq])
        #expect(inStream(iq) == "<iq xmlns='jabber:component:accept' type='result' id='1'/>")
    }

    // MARK: Standalone text

    @Test("X3 a standalone text must be exactly one element")
    func standaloneParsing() throws {
        #expect(try Element(parsing: " <a xmlns='u'/>\n") == Element("a", namespace: "u"))
        #expect(try Element(parsing: "<a/>", defaultNamespace: "v") == Element("a", namespace: "v"))
        for text in [
            "", " ", "x", "<a/><b/>", "<a>", "</a>", "<a/>x", "<a/></stream:stream>", "</stream:stream>",
            "<a/><!-- -->",
            "<?xml version='1.0'?><a/>", "<a", "<!DOCTYPE a><a/>",
        ] {
            #expect(throws: StreamParserError.self, "\(text)") { try Element(parsing: text) }
        }
    }

    // MARK: Round trip

    @Test(
        "X3 random elements survive a round trip in both forms, however they are cut",
        arguments: [1, 2, 3, 4] as [UInt64])
    func randomRoundTrip(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        for round in 0..<150 {
            let element = RandomElement.make(depth: 4, using: &generator)
            let bytes = Serializer().bytes(element)
            #expect(try read(bytes) == [element], "seed \(seed), round \(round)")
            #expect(try Element(parsing: element.serialized()) == element, "seed \(seed), round \(round)")
            let inside = element.serialized(defaultNamespace: "urn:x")
            #expect(
                try Element(parsing: inside, defaultNamespace: "urn:x") == element,
                "seed \(seed), round \(round)")
            let header = Serializer.streamHeader(to: "b")
            let cut = Int.random(in: 0...bytes.count, using: &generator)
            let outcome = try ParserVerifier.outcome(of: [header, Array(bytes[..<cut]), Array(bytes[cut...])])
            #expect(outcome.elements == [element], "seed \(seed), round \(round), cut at \(cut)")
        }
    }
}
