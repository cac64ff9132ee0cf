import ParserVerifier
import TestThreads
import Testing
import XMPPCore

/// What cannot be read inside a first-level element costs that element, or the member of a list in it, and nothing else.
@Suite(.ownThread) struct StreamParserRefusalTests {
    /// What costs only the element that it stands in.
    static let refusals: [StreamParserHostileTests.Attack] = [
        .init(
            "comment in a stanza", "<presence/><message><!-- x --></message>", .restrictedXML, elements: 1),
        .init("processing instruction in a stanza", "<message><?x?></message>", .restrictedXML),
        .init("undeclared entity", "<message><body>&evil;</body></message>", .restrictedXML),
        .init("undeclared entity in a value", "<message id='&evil;'/>", .restrictedXML),
        .init("HTML entity", "<message><body>&nbsp;</body></message>", .restrictedXML),
        .init(
            "prefix declared twice in a tag", "<presence/><a xmlns:x='u' xmlns:x='v'/>", .notWellFormed,
            elements: 1),
        .init("default namespace declared twice in a tag", "<a xmlns='u' xmlns='v'/>", .notWellFormed),
        .init("prefix xml bound to another", "<a xmlns:xml='urn:x'/>", .notWellFormed),
        .init("prefix xmlns bound", "<a xmlns:xmlns='urn:x'/>", .notWellFormed),
        .init(
            "another prefix for xml", "<a xmlns:x='http://www.w3.org/XML/1998/namespace'/>", .notWellFormed),
        .init(
            "xml as default namespace", "<a xmlns='http://www.w3.org/XML/1998/namespace'/>", .notWellFormed),
        .init("another prefix for xmlns", "<a xmlns:x='http://www.w3.org/2000/xmlns/'/>", .notWellFormed),
        .init("xmlns as default namespace", "<a xmlns='http://www.w3.org/2000/xmlns/'/>", .notWellFormed),
        .init("attribute twice", "<message id='1' id='2'/>", .notWellFormed),
        .init(
            "attribute twice by namespace", "<m xmlns:a='u' xmlns:b='u' a:x='1' b:x='2'/>", .notWellFormed),
        .init("undeclared prefix", "<presence/><x:message/>", .notWellFormed, elements: 1),
        .init("undeclared prefix of an attribute", "<message x:id='1'/>", .notWellFormed),
        .init(
            "undeclared prefix behind a declared one", "<a xmlns:x='u'/><x:a/>", .notWellFormed, elements: 1),
        .init("empty prefix declaration", "<a xmlns:x=''/>", .notWellFormed),
        .init("attribute without quotes", "<message id=1/>", .notWellFormed),
        .init("attribute without value", "<message id/>", .notWellFormed),
        .init("no space between attributes", "<message a='1'b='2'/>", .notWellFormed),
        .init("less-than in a value", "<message id='<'/>", .notWellFormed),
        .init("ampersand alone", "<message><body>a & b</body></message>", .notWellFormed),
        .init("reference without end", "<message><body>&amp</body></message>", .notWellFormed),
        .init("ampersand alone in a value", "<message id='a & b'/>", .notWellFormed),
        .init("reference without end in a value", "<message id='&amp'/>", .notWellFormed),
        .init("empty reference", "<message>&;</message>", .notWellFormed),
        .init("CDATA end in text", "<message>]]></message>", .notWellFormed),
        .init("character reference to NUL", "<message>&#0;</message>", .notWellFormed),
        .init("character reference to a control", "<message>&#x1;</message>", .notWellFormed),
        .init("character reference to a surrogate", "<message>&#xD800;</message>", .notWellFormed),
        .init("character reference beyond Unicode", "<message>&#x110000;</message>", .notWellFormed),
        .init("control character in text", "<message>\u{1}</message>", .notWellFormed),
        .init("control character in a value", "<message id='\u{8}'/>", .notWellFormed),
        .init("control character in a tag", "<mess\u{7}age/>", .notWellFormed),
        .init("NUL in text", "<presence/><message>a\0b</message>", .notWellFormed, elements: 1),
        .init("NUL in a value", "<message id='a\0b'/>", .notWellFormed),
        .init("noncharacter U+FFFF", "<message>\u{FFFF}</message>", .notWellFormed),
        .init("noncharacter U+FFFE in a value", "<message id='\u{FFFE}'/>", .notWellFormed),
        .init(
            "Latin-1", bytes: Array("<message>caf".utf8) + [0xE9] + Array("</message>".utf8),
            .unsupportedEncoding),
        .init(
            "lone continuation byte", bytes: Array("<message>".utf8) + [0x80] + Array("</message>".utf8),
            .unsupportedEncoding),
        .init(
            "overlong slash", bytes: Array("<message>".utf8) + [0xC0, 0xAF] + Array("</message>".utf8),
            .unsupportedEncoding),
        .init(
            "overlong A", bytes: Array("<message>".utf8) + [0xC1, 0x81] + Array("</message>".utf8),
            .unsupportedEncoding),
        .init(
            "overlong three bytes",
            bytes: Array("<message>".utf8) + [0xE0, 0x80, 0xAF] + Array("</message>".utf8),
            .unsupportedEncoding),
        .init(
            "encoded surrogate",
            bytes: Array("<message>".utf8) + [0xED, 0xA0, 0x80] + Array("</message>".utf8),
            .unsupportedEncoding),
        .init(
            "beyond U+10FFFF",
            bytes: Array("<message>".utf8) + [0xF4, 0x90, 0x80, 0x80] + Array("</message>".utf8),
            .unsupportedEncoding
        ),
        .init("0xFF", bytes: Array("<message id='".utf8) + [0xFF] + Array("'/>".utf8), .unsupportedEncoding),
        .init(
            "character cut by a tag",
            bytes: Array("<message>".utf8) + [0xF0, 0x9F] + Array("</message>".utf8),
            .unsupportedEncoding),
        .init(
            "broken UTF-8 in a name", bytes: Array("<mess".utf8) + [0xC3] + Array("age/>".utf8),
            .unsupportedEncoding),
    ]

    private let after = Array("<presence id='after'/></stream:stream>".utf8)

    @Test(
        "X18 what cannot be read costs its element, and the next one is read, however it is cut",
        arguments: refusals)
    func refusal(_ attack: StreamParserHostileTests.Attack) throws {
        let outcome = try ParserVerifier.verify(bytes: [attack.stream, after])
        #expect(outcome.code == nil)
        #expect(outcome.refused.map(\.reason.streamError.condition) == [attack.condition])
        #expect(outcome.refused.map(\.list) == [nil])
        #expect(outcome.elements.count == attack.elements + 1)
        #expect(outcome.elements.last?["id"] == "after")
        #expect(outcome.events.last == .closed)
    }

    // MARK: What is known of it

    private func refused(_ stanza: String, limits: ParserLimits = .standard) throws -> RefusedElement {
        let pieces = [testHeader, "<presence/> ", stanza, " <presence id='after'/>"]
        // A long one is not split everywhere.
        let bytes = pieces.joined().utf8.map { [$0] }
        let outcome =
            try stanza.utf8.count < 1000
            ? ParserVerifier.verify(pieces, limits: limits) : ParserVerifier.outcome(of: bytes, limits)
        #expect(outcome.code == nil && outcome.elements.count == 2)
        let refused = try #require(outcome.refused.first)
        #expect(outcome.refused.count == 1)
        #expect(refused.byteCount == stanza.utf8.count)
        return refused
    }

    @Test(
        "X18 of a refused stanza the root is known: name, namespace, from, to, id and type",
        arguments: [
            // Refused inside: libxml2 has read the start tag.
            "<message from='a@b/c' to='d@e' id='&#x41;&amp;' type='chat'><x:y/></message>",
            // Refused in the start tag, in front of what is to be known and behind it.
            "<message x:a='1' from='a@b/c' to='d@e' id='&#x41;&amp;' type='chat'/>",
            "<message from='a@b/c'\n to = \"d@e\" id='&#65;&amp;' type='chat' x:y='1'><body>></body></message>",
            "<c:message xmlns:c='jabber:client' from='a@b/c' to='d@e' id='A&amp;' type='chat'><x:y/></c:message>",
            "<c:message xmlns:c='jabber:client' from='a@b/c' to='d@e' id='A&amp;' type='chat' x:y=''></c:message>",
        ])
    func root(stanza: String) throws {
        let refused = try refused(stanza)
        #expect(refused.root.has(name: "message", namespace: Namespaces.client))
        #expect(refused.root["from"] == "a@b/c" && refused.root["to"] == "d@e")
        #expect(refused.root["id"] == "A&" && refused.root["type"] == "chat")
        #expect(refused.root.attributes.count == 4 && refused.root.children.isEmpty)
        #expect(refused.unreadable.isEmpty)
    }

    @Test("X18 the header's namespaces count for the root of a refused element")
    func inheritedNamespace() throws {
        let refused = try refused("<stream:features a:b='1'><x/></stream:features>")
        #expect(refused.root.has(name: "features", namespace: Namespaces.stream))
        #expect(try self.refused("<x:y xmlns='jabber:client'/>").root.namespace == "")
    }

    @Test("X18 an attribute of the root that is malformed, repeated or too long is known to be unreadable")
    func unreadable() throws {
        let long = String(repeating: "x", count: 4097)
        let refused = try refused(
            "<iq from='a\u{1}b' id='1' id='2' type='&x;' to='\(String(repeating: "y", count: 4096))'><a/></iq>"
        )
        #expect(refused.unreadable == ["from", "id", "type"])
        #expect(refused.root["to"]?.utf8.count == 4096 && refused.root.attributes.count == 1)
        // Also where libxml2 has read it.
        #expect(try self.refused("<iq from='\(long)' id='1'><x:y/></iq>").unreadable == ["from"])
        #expect(try self.refused("<iq from='\(long)' id='1' a:b=''><x/></iq>").unreadable == ["from"])
    }

    @Test("X18 names and prefixes of any length, and prefixes that are shadowed, cost one element")
    func longNames() throws {
        let name = String(repeating: "n", count: 50_001)
        let deep = String(repeating: "<a>", count: 1000) + String(repeating: "</a>", count: 1000)
        for body in [
            // What servers make of <xml:x/>.
            "<x xmlns='http://www.w3.org/XML/1998/namespace'/>", "<\(name)/>", "<x \(name)='1'/>",
            "<\(name):x xmlns:\(name)='u'/>",
            "<a xmlns:p='u'><b xmlns:p=''><p:c/></b></a>", deep,
        ] {
            let stanza = "<message from='a@b' id='m'>\(body)</message>"
            let parser = try StreamParser()
            let events = try parser.parse(testHeader + stanza + "<presence/>")
            guard events.count == 3, case .refused(let refused) = events[1] else {
                Issue.record("not refused: \(body.prefix(20)): \(events.count)")
                continue
            }
            #expect(refused.root["from"] == "a@b" && refused.byteCount == stanza.utf8.count)
        }
        let stanza = "<\(name) from='a@b'/>"
        let events = try StreamParser().parse(testHeader + stanza + "<presence/>")
        guard events.count == 3, case .refused(let refused) = events[1] else {
            Issue.record("a root with a long name was not refused")
            return
        }
        #expect(refused.root.name == "" && refused.byteCount == stanza.utf8.count)
    }

    // MARK: Members of lists

    private static let items = "<items node='n'>"
    private static let event =
        "<message from='s'><event xmlns='http://jabber.org/protocol/pubsub#event'><items node='n'>"

    @Test(
        "X18 a member of a list that cannot be read costs itself, and the other members are read",
        arguments: [
            ("<item id='2'><x:y/></item>", StreamError.Condition.notWellFormed),
            ("<item id='2' id='3'>text<a/></item>", .notWellFormed),
            ("<item id='2'><a>\u{1}</a></item>", .notWellFormed),
            ("<item id='\u{1}'><a/></item>", .notWellFormed), ("<x:item/>", .notWellFormed),
            ("<item><!-- <item> --><a b='</item>'/></item>", .restrictedXML),
            ("<item><a><![CDATA[</item>]]><b/>&x;</a></item>", .restrictedXML),
            ("<item><?x </item>?></item>", .restrictedXML),
            (
                "<item>" + String(repeating: "<d>", count: 80) + String(repeating: "</d>", count: 80)
                    + "</item>",
                .policyViolation
            ),
        ])
    func member(_ member: String, _ condition: StreamError.Condition) throws {
        let rest = "<item id='9'><p:a xmlns:p='urn:p'><b/></p:a></item></items><x/></event></message>"
        let outcome = try ParserVerifier.verify([
            testHeader, Self.event + "<item id='1'><a/></item>", member, rest, "<presence/>",
        ])
        try #require(outcome.code == nil && outcome.elements.count == 2)
        #expect(outcome.refused.map(\.byteCount) == [member.utf8.count])
        #expect(outcome.refused.first?.reason.streamError.condition == condition)
        #expect(outcome.refused.first?.root["from"] == "s")
        #expect(outcome.refused.first?.list?["node"] == "n" && outcome.refused.first?.list?.children == [])
        let event = outcome.elements[0].child("event", Namespaces.pubsubEvent)
        let items = event?.child("items", Namespaces.pubsubEvent)
        #expect(items?.elements.map { $0["id"] } == ["1", "9"])
        #expect(items?.elements.last?.firstElement?.namespace == "urn:p")
        #expect(event?.elements.last?.has(name: "x", namespace: Namespaces.pubsubEvent) == true)
    }

    @Test("X18 several members of one list, also in one behind it, and of a roster written with prefixes")
    func members() throws {
        let bad = "<item id='x'><x:y/></item>"
        let outcome = try ParserVerifier.verify([
            testHeader, Self.event, bad, "<item id='1'/>", bad, bad, "<item id='2'/></items><items node='m'>",
            bad, "<item id='3'/>", "</items></event></message>",
            "<c:iq xmlns:c='jabber:client' type='result' id='r' xmlns='urn:no'><r:query xmlns:r='jabber:iq:roster'>"
                + "<r:item jid='a@b'/><r:item jid='c@d'><x:y/></r:item><r:item jid='e@f'/></r:query></c:iq>",
        ])
        try #require(outcome.code == nil && outcome.elements.count == 2 && outcome.refused.count == 5)
        let lists = outcome.elements[0].firstElement?.elements ?? []
        #expect(lists.map { $0.elements.map { $0["id"] } } == [["1", "2"], ["3"]])
        let query = outcome.elements[1].child("query", Namespaces.roster)
        #expect(query?.children("item", Namespaces.roster).map { $0["jid"] } == ["a@b", "e@f"])
    }

    @Test("X18 what is wrong in a list and in no member of it costs the stanza")
    func list() throws {
        for fault in ["\u{1}", "&x;", "]]>"] {
            let outcome = try ParserVerifier.verify([
                testHeader, Self.event, "<item id='1'/>", fault, "</items></event></message><presence/>",
            ])
            #expect(outcome.code == nil && outcome.elements.count == 1)
            #expect(outcome.refused.count == 1 && outcome.refused.first?.list == nil, "\(fault)")
        }
    }

    @Test("X18 a list in a stanza that is too large, or whose start tags cost too much, is refused whole")
    func listLimits() throws {
        var limits = ParserLimits()
        limits.stanzaBytes = 300
        let large = "<item id='x'><x:y/>" + String(repeating: "y", count: 300) + "</item>"
        let end = "</items></event></message>"
        var outcome = try ParserVerifier.verify(
            [testHeader, Self.event, "<item id='1'/>", large, end, "<presence/>"], limits: limits)
        #expect(outcome.elements.count == 1 && outcome.refused.count == 1)
        #expect(outcome.refused.first?.list == nil)
        #expect(outcome.refused.first?.reason.code == .limitExceeded)

        limits = ParserLimits()
        limits.replayedBytes = 1000
        let bad = "<item><x:y/></item>"
        outcome = try ParserVerifier.verify(
            [testHeader, Self.event, String(repeating: bad, count: 9), end, "<presence/>"], limits: limits)
        #expect(outcome.elements.count == 1)
        #expect(outcome.refused.count(where: { $0.list == nil }) == 1)
        #expect(outcome.refused.last?.byteCount == (Self.event + end).utf8.count + 9 * bad.utf8.count)
    }

    // MARK: Amounts

    @Test("X18 thousands of elements and members that cannot be read cost a constant amount each")
    func thousands() throws {
        let parser = try StreamParser()
        _ = try parser.parse(testHeader)
        let bad = "<message from='a@b'><body>x</body><x:y/></message>"
        let stanzas = (1 << 20) / bad.utf8.count
        let first = try parser.parse(String(repeating: bad, count: stanzas) + "<presence/>")
        #expect(first.count == stanzas + 1)
        let member = "<item id='1'><a xmlns='urn:a'><x:y/></a></item>"
        let items =
            Self.event + String(repeating: member + "<item/>", count: 5000) + "</items></event></message>"
        let second = try parser.parse(items)
        #expect(second.count == 5001)
        guard case .element(let element) = second.last else {
            Issue.record("the list was refused whole")
            return
        }
        #expect(element.firstElement?.firstElement?.elements.count == 5000)
    }

    @Test("X18 an element that is skipped may have as many bytes as the limit says and not one more")
    func skippedBytes() throws {
        var limits = ParserLimits()
        limits.skippedBytes = 100
        let head = "<message><x:y/>"
        let fine = head + String(repeating: "y", count: 100 - head.utf8.count - 10) + "</message>"
        #expect(fine.utf8.count == 100)
        #expect(try ParserVerifier.verify([testHeader, fine], limits: limits).refused.count == 1)
        let outcome = try ParserVerifier.verify(
            [testHeader, fine.replacing("</", with: "z</")], limits: limits)
        #expect(outcome.condition == .policyViolation && outcome.refused.isEmpty)
        #expect(outcome.unfinished?.name == "message")
    }

    // MARK: Where no boundary can be found

    @Test(
        "X18 where the end of an element cannot be found the stream ends, and the error says in which element",
        arguments: [
            "<message from='a@b' <body/></message>", "<message from='a@b'><a></message>",
            "<message from='a@b'><x:y/><a></message></stream:stream>",
            "<message from='a@b'><!DOCTYPE x></message>", "<message from='a@b'><x:y/></presence>",
            "<message from='a@b'>a < b</message>", "<message from='a@b' a:b=''></b></message>",
        ])
    func noBoundary(stanza: String) throws {
        let outcome = try ParserVerifier.verify([testHeader, "<presence/>", stanza])
        #expect(outcome.code != nil && outcome.elements.count == 1 && outcome.refused.isEmpty)
        #expect(outcome.unfinished?.has(name: "message", namespace: Namespaces.client) == true)
        #expect(outcome.unfinished?["from"] == "a@b")
    }

    @Test("X18 between two elements the stream ends in none")
    func betweenElements() throws {
        for text in ["x", "<!-- -->", "</a>", "<?x?>"] {
            let outcome = try ParserVerifier.verify([testHeader, "<presence/>", text])
            #expect(outcome.code != nil && outcome.unfinished == nil, "\(text)")
        }
    }

    @Test("X18 a stored element that cannot be read is an error, never left out")
    func stored() {
        for text in [
            "<a><x:y/></a>",
            "<iq xmlns='jabber:client'><query xmlns='jabber:iq:roster'><item><x:y/></item></query></iq>",
        ] {
            let error = #expect(throws: StreamParserError.self) { try Element(parsing: text) }
            #expect(error?.code == .notWellFormed)
        }
    }
}
