import ParserVerifier
import Testing
import XMPPCore

/// Which start tags are read, against the grammar of XML.
@Suite struct StartTagTests {
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
}
