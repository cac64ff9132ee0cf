import ParserVerifier
import TestThreads
import Testing
import XMPPCore

/// Which start tags are read, against the grammar of XML.
@Suite(.ownThread) struct StartTagTests {
    /// Every tag that has so many parts behind `<n`: names, each another one, spaces, equals signs and values.
    private static func tags(of count: Int) -> [String] {
        (0..<1 << (2 * count)).map { choices in
            (0..<count).reduce("<n") { tag, place in
                tag + ["n.\(place)", " ", "=", "'v'"][choices >> (2 * place) & 3]
            } + "/>"
        }
    }

    @Test("X3 X18 of all orders of names, spaces, equals signs and values those are refused that XML forbids")
    func orders() throws {
        // XML 1.0 section 3.1, production 44.
        let grammar = #/<[n.0-9]+( +[n.0-9]+ *= *'v')* *\/>/#
        var counts = (read: 0, refused: 0)
        for tag in (0...6).flatMap(Self.tags) {
            let events = try StreamParser().parse(testHeader + tag + "<after/>")
            try #require(events.count == 3, "\(tag): \(events)")
            if case .element(let element) = events[1] {
                #expect(
                    element.name.utf8.first == UInt8(ascii: "n") && tag.wholeMatch(of: grammar) != nil,
                    "\(tag)")
                counts.read += 1
            } else {
                #expect(tag.wholeMatch(of: grammar) == nil, "\(tag)")
                counts.refused += 1
            }
        }
        #expect(counts.read > 20 && counts.refused > 5000)
    }

    @Test(
        "X18 a tag whose parts stand in a wrong order is refused in front of libxml2",
        arguments: [
            "<n a/>", "<n a b='v'/>", "<n a=b/>", "<n a='v'b='v'/>", "<n='v'/>", "<n 'v'/>", "<n a='v' 'v'/>",
            "<@/>", "<n@/>", "<n a*='v'/>",
        ])
    func inFront(tag: String) throws {
        let outcome = try ParserVerifier.verify([testHeader, tag])
        #expect(
            outcome.refused.map(\.reason.message) == [
                "A start tag with a character, a name, a '=' or a value where none may stand."
            ])
    }

    @Test("X18 what is known of a refused tag does not depend on how its bytes were cut")
    func cuts() throws {
        var limits = ParserLimits()
        limits.stanzaBytes = 8
        for tag in ["<a x='1'\u{E9}='2'/>        ", "<a abcdef \u{E9}\u{E9}\u{E9}\u{E9}/>"] {
            let outcome = try ParserVerifier.verify([testHeader, tag], limits: limits)
            #expect(outcome.refused.map(\.reason.code) == [.limitExceeded])
        }
        // A value without a name, longer than what is kept of one: nothing in it is an attribute.
        let tag = "<iq\"" + String(repeating: " ", count: 4200) + "id='x' type='get'\"/>"
        let whole = try StreamParser().parse(testHeader + tag)
        let bytewise = try ParserVerifier.outcome(of: (testHeader + tag).utf8.map { [$0] }, .standard)
        #expect(bytewise.events == whole)
        guard case .refused(let refused)? = whole.last else {
            Issue.record("\(whole)")
            return
        }
        #expect(refused.root["id"] == nil && refused.root["type"] == nil)
    }

    @Test(
        "X18 of a malformed start tag each attribute that can be read is known by its own name",
        arguments: [
            ("<iq i d='1' typ e='get'/>", [:], []),
            ("<iq x id='1' type='get'/>", ["id": "1", "type": "get"], []),
            ("<iq id='1' x type = 'get'/>", ["id": "1", "type": "get"], []),
            ("<iq id=1 type='get'/>", ["type": "get"], ["id"]), ("<iq id= to='a@b'/>", ["to": "a@b"], ["id"]),
        ] as [(String, [String: String], Set<ForeignText>)])
    func attributes(tag: String, known: [String: String], unreadable: Set<ForeignText>) throws {
        let refused = try #require(try ParserVerifier.verify([testHeader, tag]).refused.first)
        for name in ["from", "id", "to", "type"] {
            #expect(refused.root[name].map { "\($0)" } == known[name], "\(name)")
        }
        #expect(refused.unreadable == unreadable)
    }

    @Test(
        "X18 an element whose end is plain costs only itself, whatever is wrong with its tags",
        arguments: [
            ("<a:b:c></a:b:c>", "c"), ("<:a></:a>", "a"), ("<a='x'></a>", "a"), ("<a'x'></a>", "a"),
            ("<a></a b>", "a"), ("<a></a x='1'>", "a"), ("<a></a/>", "a"),
        ])
    func ends(element: String, name: ForeignText) throws {
        let outcome = try ParserVerifier.verify([testHeader, element, "<after/>"])
        #expect(outcome.code == nil && outcome.elements.map(\.name) == ["after"])
        #expect(outcome.refused.map(\.root.name) == [name])
    }

    @Test("X18 a byte that starts no character costs the element whose name it starts")
    func brokenName() throws {
        let bytes = [Array(testHeader.utf8), [0x3C, 0xFF, 0x2F, 0x3E], Array("<after/>".utf8)]
        let outcome = try ParserVerifier.verify(bytes: bytes)
        #expect(
            outcome.code == nil && outcome.elements.map(\.name) == ["after"] && outcome.refused.count == 1)
    }

    @Test("X18 the name of the element in which a stream ends is its own")
    func lastName() throws {
        let outcome = try ParserVerifier.verify([testHeader, "<a@<after/>"])
        #expect(outcome.code == .notWellFormed && outcome.unfinished?.name == "a@")
    }
}
