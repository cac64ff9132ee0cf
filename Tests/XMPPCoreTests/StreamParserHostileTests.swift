import TestThreads
import Testing
import HandlersTestKit
import ParserVerifier
import XMPPCore

/// What no sane peer sends and what leaves no boundary behind: it ends with the right stream error, never with a crash or with
/// growing memory. What costs one element only is in `StreamParserRefusalTests`.
@Suite(.ownThread) struct StreamParserHostileTests {
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
        Attack("processing instruction", "<?php x ?>", .restrictedXML),
        Attack("stylesheet in front", "<?xml-stylesheet href='x'?><a/>", .restrictedXML, bare: true),
        Attack("second XML declaration", "<?xml version='1.0'?>", .restrictedXML),
        Attack("DTD in front", "<!DOCTYPE x [<!ENTITY a 'b'>]><x/>", .restrictedXML, bare: true),
        Attack(
            "DTD behind the declaration", "<?xml version='1.0'?><!DOCTYPE x SYSTEM 'http://x/'><x/>",
            .restrictedXML,
            bare: true),
        Attack("DTD in a stanza", "<message><!DOCTYPE x></message>", .restrictedXML),
        Attack("entity declaration", "<!ENTITY a 'b'>", .restrictedXML),

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
        Attack("less-than in a tag", "<message <body/>", .notWellFormed),
        Attack("less-than in an end tag", "<message></mess<age>", .notWellFormed),
        Attack("slash in a tag", "<message / id='1'>", .notWellFormed),
        Attack("empty tag name", "<message><></message>", .notWellFormed),
        Attack("tag of digits", "<1/>", .notWellFormed),
        Attack("NUL between stanzas", "<presence/>\0", .notWellFormed, elements: 1),
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

    @Test("X3 a namespace that is declared again counts where it is declared and nowhere else")
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
