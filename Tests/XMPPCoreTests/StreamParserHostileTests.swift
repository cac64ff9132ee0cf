import Testing
import ParserVerifier
import XMPPCore

/// What no sane peer sends. Everything ends with the right stream error, never with a crash or with growing memory.
@Suite struct StreamParserHostileTests {
    /// One hostile stream: what follows the header (or stands for it), and the stream error it must end in.
    struct Attack: CustomTestStringConvertible, Sendable {
        let name: String
        let stream: [UInt8]
        let condition: StreamError.Condition
        /// First-level elements that are complete in front of the error.
        var elements = 0
        var testDescription: String { name }

        init(
            _ name: String, _ text: String, _ condition: StreamError.Condition, elements: Int = 0,
            bare: Bool = false
        ) {
            self.init(name, bytes: Array(text.utf8), condition, elements: elements, bare: bare)
        }

        init(
            _ name: String, bytes: [UInt8], _ condition: StreamError.Condition, elements: Int = 0,
            bare: Bool = false
        ) {
            self.name = name
            stream = (bare ? [] : Array(testHeader.utf8)) + bytes
            self.condition = condition
            self.elements = elements
        }
    }

    static let attacks: [Attack] = [
        // Forbidden by RFC 6120 section 11.1.
        Attack("comment", "<!-- x --><presence/>", .restrictedXML),
        Attack(
            "comment in a stanza", "<presence/><message><!-- x --></message>", .restrictedXML, elements: 1),
        Attack("processing instruction", "<?php x ?>", .restrictedXML),
        Attack("processing instruction in a stanza", "<message><?x?></message>", .restrictedXML),
        Attack("stylesheet in front", "<?xml-stylesheet href='x'?><a/>", .restrictedXML, bare: true),
        Attack("second XML declaration", "<?xml version='1.0'?>", .restrictedXML),
        Attack("DTD in front", "<!DOCTYPE x [<!ENTITY a 'b'>]><x/>", .restrictedXML, bare: true),
        Attack(
            "DTD behind the declaration", "<?xml version='1.0'?><!DOCTYPE x SYSTEM 'http://x/'><x/>",
            .restrictedXML,
            bare: true),
        Attack("DTD in a stanza", "<message><!DOCTYPE x></message>", .restrictedXML),
        Attack("entity declaration", "<!ENTITY a 'b'>", .restrictedXML),
        Attack("undeclared entity", "<message><body>&evil;</body></message>", .restrictedXML),
        Attack("undeclared entity in a value", "<message id='&evil;'/>", .restrictedXML),
        Attack("HTML entity", "<message><body>&nbsp;</body></message>", .restrictedXML),

        Attack(
            "entities that grow",
            "<?xml version='1.0'?><!DOCTYPE l [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'>"
                + "<!ENTITY c '&b;&b;&b;&b;&b;&b;&b;&b;'>]><l>&c;</l>", .restrictedXML, bare: true),
        Attack(
            "entities that grow, in a stanza", "<message><!DOCTYPE l [<!ENTITY a '&a;&a;'>]>&a;</message>",
            .restrictedXML),
        Attack(
            "parameter entity", "<message>%a;<!ENTITY % a SYSTEM 'file:///etc/passwd'></message>",
            .restrictedXML),

        // Namespaces redeclared (Namespaces in XML 1.0, section 3).
        Attack(
            "prefix declared twice in a tag", "<presence/><a xmlns:x='u' xmlns:x='v'/>", .notWellFormed,
            elements: 1),
        Attack("default namespace declared twice in a tag", "<a xmlns='u' xmlns='v'/>", .notWellFormed),
        Attack("prefix xml bound to another", "<a xmlns:xml='urn:x'/>", .notWellFormed),
        Attack("prefix xmlns bound", "<a xmlns:xmlns='urn:x'/>", .notWellFormed),
        Attack(
            "another prefix for xml", "<a xmlns:x='http://www.w3.org/XML/1998/namespace'/>", .notWellFormed),
        Attack(
            "xml as default namespace", "<a xmlns='http://www.w3.org/XML/1998/namespace'/>", .notWellFormed),
        Attack("another prefix for xmlns", "<a xmlns:x='http://www.w3.org/2000/xmlns/'/>", .notWellFormed),
        Attack("xmlns as default namespace", "<a xmlns='http://www.w3.org/2000/xmlns/'/>", .notWellFormed),
        Attack(
            "end tag whose prefix was redeclared inside", "<x:a xmlns:x='u'><y:b xmlns:y='u'></x:b></x:a>",
            .notWellFormed),

        // Not well-formed.
        Attack("second root with a declaration", "</stream:stream>" + testHeader, .restrictedXML),
        Attack("second root", "</stream:stream><stream:stream/>", .notWellFormed),
        Attack("text after the root", "</stream:stream>x", .notWellFormed),
        Attack("text before the root", "hello", .notWellFormed, bare: true),
        Attack("byte order mark", "\u{FEFF}<a/>", .notWellFormed, bare: true),
        Attack("end tag first", "</stream:stream>", .notWellFormed, bare: true),
        Attack("mismatched end tag", "<presence/><message><body></message>", .notWellFormed, elements: 1),
        Attack("mismatched prefix at the end", "</stream>", .notWellFormed),
        Attack("attribute twice", "<message id='1' id='2'/>", .notWellFormed),
        Attack(
            "attribute twice by namespace", "<m xmlns:a='u' xmlns:b='u' a:x='1' b:x='2'/>", .notWellFormed),
        Attack("undeclared prefix", "<presence/><x:message/>", .notWellFormed, elements: 1),
        Attack("undeclared prefix of an attribute", "<message x:id='1'/>", .notWellFormed),
        Attack(
            "undeclared prefix behind a declared one", "<a xmlns:x='u'/><x:a/>", .notWellFormed, elements: 1),
        Attack("empty prefix declaration", "<a xmlns:x=''/>", .notWellFormed),
        Attack("attribute without quotes", "<message id=1/>", .notWellFormed),
        Attack("attribute without value", "<message id/>", .notWellFormed),
        Attack("no space between attributes", "<message a='1'b='2'/>", .notWellFormed),
        Attack("less-than in a value", "<message id='<'/>", .notWellFormed),
        Attack("less-than in a tag", "<message <body/>", .notWellFormed),
        Attack("less-than in an end tag", "<message></mess<age>", .notWellFormed),
        Attack("slash in a tag", "<message / id='1'>", .notWellFormed),
        Attack("ampersand alone", "<message><body>a & b</body></message>", .notWellFormed),
        Attack("reference without end", "<message><body>&amp</body></message>", .notWellFormed),
        Attack("ampersand alone in a value", "<message id='a & b'/>", .notWellFormed),
        Attack("reference without end in a value", "<message id='&amp'/>", .notWellFormed),
        Attack("empty reference", "<message>&;</message>", .notWellFormed),
        Attack("CDATA end in text", "<message>]]></message>", .notWellFormed),
        Attack("empty tag name", "<message><></message>", .notWellFormed),
        Attack("tag of digits", "<1/>", .notWellFormed),
        Attack("attributes in an end tag", "<message></message id='1'>", .notWellFormed),
        Attack("character reference to NUL", "<message>&#0;</message>", .notWellFormed),
        Attack("character reference to a control", "<message>&#x1;</message>", .notWellFormed),
        Attack("character reference to a surrogate", "<message>&#xD800;</message>", .notWellFormed),
        Attack("character reference beyond Unicode", "<message>&#x110000;</message>", .notWellFormed),
        Attack("control character in text", "<message>\u{1}</message>", .notWellFormed),
        Attack("control character in a value", "<message id='\u{8}'/>", .notWellFormed),
        Attack("control character in a tag", "<mess\u{7}age/>", .notWellFormed),
        Attack("NUL in text", "<presence/><message>a\0b</message>", .notWellFormed, elements: 1),
        Attack("NUL in a value", "<message id='a\0b'/>", .notWellFormed),
        Attack("NUL between stanzas", "<presence/>\0", .notWellFormed, elements: 1),
        Attack("noncharacter U+FFFF", "<message>\u{FFFF}</message>", .notWellFormed),
        Attack("noncharacter U+FFFE in a value", "<message id='\u{FFFE}'/>", .notWellFormed),
        Attack("XML 1.1", "<?xml version='1.1'?><a/>", .notWellFormed, bare: true),
        Attack("declaration without version", "<?xml ?><a/>", .notWellFormed, bare: true),
        Attack(
            "declaration in the wrong order", "<?xml version='1.0' standalone='no' encoding='utf-8'?><a/>",
            .notWellFormed, bare: true),
        Attack("declaration with more in it", "<?xml version='1.0' x='y'?><a/>", .notWellFormed, bare: true),
        Attack(
            "declaration without spaces", "<?xml version='1.0'encoding='utf-8'?><a/>", .notWellFormed,
            bare: true),
        Attack("declaration with open quotes", "<?xml version='1.0?><a/>", .notWellFormed, bare: true),
        Attack("root of three bytes", "<a>", .invalidNamespace, bare: true),
        Attack("broken declaration", "<?xml encoding='utf-8'?><a/>", .notWellFormed, bare: true),
        Attack("space in front of the declaration", " <?xml version='1.0'?><a/>", .restrictedXML, bare: true),

        // Character data where only stanzas may stand.
        Attack("text between stanzas", "<presence/>x<presence/>", .badFormat, elements: 1),
        Attack("emoji between stanzas", "<presence/>🙂", .badFormat, elements: 1),
        Attack("reference between stanzas", "&#32;<presence/>", .badFormat),
        Attack("CDATA between stanzas", "<![CDATA[ ]]>", .badFormat),

        // Not a stream.
        Attack(
            "other root namespace", "<stream:stream xmlns:stream='urn:x' xmlns='jabber:client'>",
            .invalidNamespace,
            bare: true),
        Attack("root without namespace", "<html><body/></html>", .invalidNamespace, bare: true),
        Attack(
            "other root name", "<s:features xmlns:s='http://etherx.jabber.org/streams'><a/><b/>", .badFormat,
            bare: true),
        Attack("HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", .notWellFormed, bare: true),
        Attack("TLS alert", bytes: [0x15, 0x03, 0x01, 0x00, 0x02], .notWellFormed, bare: true),

        // Encodings.
        Attack(
            "Latin-1", bytes: Array("<message>caf".utf8) + [0xE9] + Array("</message>".utf8),
            .unsupportedEncoding),
        Attack("lone continuation byte", bytes: Array("<message>".utf8) + [0x80], .unsupportedEncoding),
        Attack("overlong slash", bytes: Array("<message>".utf8) + [0xC0, 0xAF], .unsupportedEncoding),
        Attack("overlong A", bytes: Array("<message>".utf8) + [0xC1, 0x81], .unsupportedEncoding),
        Attack(
            "overlong three bytes", bytes: Array("<message>".utf8) + [0xE0, 0x80, 0xAF], .unsupportedEncoding),
        Attack(
            "encoded surrogate", bytes: Array("<message>".utf8) + [0xED, 0xA0, 0x80], .unsupportedEncoding),
        Attack(
            "beyond U+10FFFF", bytes: Array("<message>".utf8) + [0xF4, 0x90, 0x80, 0x80], .unsupportedEncoding
        ),
        Attack("0xFF", bytes: Array("<message id='".utf8) + [0xFF], .unsupportedEncoding),
        Attack(
            "character cut by a tag",
            bytes: Array("<message>".utf8) + [0xF0, 0x9F] + Array("</message>".utf8),
            .unsupportedEncoding),
        Attack(
            "broken UTF-8 in a name", bytes: Array("<mess".utf8) + [0xC3] + Array("age/>".utf8),
            .unsupportedEncoding),
        Attack("UTF-16 with mark", bytes: [0xFE, 0xFF, 0x00, 0x3C], .unsupportedEncoding, bare: true),
        Attack("UTF-16 without mark", bytes: [0x3C, 0x00, 0x3F, 0x00], .unsupportedEncoding, bare: true),
        Attack(
            "declared UTF-16", "<?xml version='1.0' encoding='UTF-16'?><a/>", .unsupportedEncoding, bare: true
        ),
        Attack(
            "declared Latin-1", "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a/>", .unsupportedEncoding,
            bare: true),
    ]

    @Test("X3 hostile input ends in the right stream error, however it is cut", arguments: attacks)
    func attack(_ attack: Attack) throws {
        let outcome = try ParserVerifier.verify(bytes: [attack.stream])
        #expect(outcome.condition == attack.condition)
        #expect(outcome.elements.count == attack.elements)
    }

    @Test("X3 a namespace that is declared anew counts where it is declared and nowhere else")
    func redeclared() throws {
        let outcome = try ParserVerifier.verify([
            testHeader,
            "<stream:a xmlns:stream='urn:not:streams'><stream:b xmlns='urn:d'><c/></stream:b><c/></stream:a>",
            "<stream:error/><message xmlns='jabber:server'/><message/><a xmlns=''><b/></a>",
        ])
        #expect(outcome.code == nil)
        let elements = outcome.elements
        #expect(
            elements.map(\.namespace) == [
                "urn:not:streams", Namespaces.stream, "jabber:server", Namespaces.client, "",
            ])
        let inner = try #require(elements.first?.elements.first)
        #expect(inner.namespace == "urn:not:streams" && inner.elements.first?.namespace == "urn:d")
        #expect(elements.first?.elements.last?.namespace == Namespaces.client)
        #expect(elements.last?.elements.first?.namespace == "")
    }

    @Test(
        "X3 a stream with random damage means the same however it is cut", arguments: [1, 2, 3] as [UInt64])
    func randomDamage(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let stream = Array(
            (testHeader
                + "<message id='1' x:k='>' xmlns:x='urn:x'><body>a&amp;é🙂<![CDATA[<b>]]></body><x:y/></message>"
                + " <iq type='get' id='2'><ping xmlns='urn:xmpp:ping'/></iq></stream:stream>").utf8)
        let splinters = Array("<>/&;'\"=!?[]-x: \0\u{1}".utf8) + [0x80, 0xC3, 0xF0, 0xFF]
        for round in 0..<500 {
            var damaged = stream
            for _ in 0...Int.random(in: 0...2, using: &generator) {
                let index = Int.random(in: damaged.indices, using: &generator)
                switch Int.random(in: 0...2, using: &generator) {
                case 0: damaged[index] = splinters[Int.random(in: splinters.indices, using: &generator)]
                case 1:
                    damaged.insert(splinters[Int.random(in: splinters.indices, using: &generator)], at: index)
                default: damaged.remove(at: index)
                }
            }
            let whole = try ParserVerifier.outcome(of: [damaged])
            let bytewise = try ParserVerifier.outcome(of: damaged.map { [$0] })
            #expect(
                whole == bytewise, "seed \(seed), round \(round): \(String(decoding: damaged, as: UTF8.self))"
            )
        }
    }

    @Test("X3 a declared UTF-8 in any case, and a standalone declaration, are accepted")
    func harmlessDeclarations() throws {
        let root = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"
        for declaration in [
            "", " \n", "<?xml version='1.0' encoding='UTF-8'?>",
            "<?xml version=\"1.0\" encoding=\"utf-8\" ?>\n",
            "<?xml version='1.0' encoding='Utf-8' standalone='yes'?>",
        ] {
            let outcome = try ParserVerifier.verify([declaration + root + "<presence/>"])
            #expect(outcome.code == nil, "\(declaration)")
            #expect(outcome.elements.count == 1)
        }
    }

    @Test("X3 an error leaves the parser dead, and says so")
    func deadParser() throws {
        let parser = try StreamParser()
        #expect(throws: StreamParserError.self) { try parser.parse("x") }
        do {
            _ = try parser.parse(testHeader)
            Issue.record("a dead parser parsed")
        } catch {
            #expect(error.code == .dead)
            #expect(error.message.contains("new parser"))
        }
    }

    @Test("X3 the error carries the stanzas that were complete in front of it")
    func eventsBeforeError() throws {
        let parser = try StreamParser()
        do {
            _ = try parser.parse(testHeader + "<presence id='1'/><presence id='2'/><broken")
            _ = try parser.parse("<")
            Issue.record("no error")
        } catch {
            #expect(error.events.isEmpty)
        }
        let glued = try StreamParser()
        do {
            _ = try glued.parse(testHeader + "<presence id='1'/><presence id='2'/><broken<")
            Issue.record("no error")
        } catch {
            #expect(error.events.count == 3)
            #expect(error.streamError.element.child("not-well-formed", Namespaces.streams) != nil)
        }
    }
}
