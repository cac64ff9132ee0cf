import Foundation
import TestThreads
import Testing

@testable import XMPPCore

/// Foreign text is compared byte by byte. Two texts that are equal to `String` because they mean the same show it without a
/// clock: compared by way of `String` they are equal.
@Suite(.ownThread) struct ForeignTextTests {
    /// The same letter, composed and not: equal as `String`.
    private static let (composed, decomposed) = ("\u{E9}", "e\u{301}")
    private let one: ForeignText = "\u{E9}"
    private let other: ForeignText = "e\u{301}"

    @Test("X19 texts are equal when their bytes are, and in order of their bytes")
    func comparing() {
        #expect(Self.composed == Self.decomposed, "This test says nothing about strings that differ.")
        #expect(one != other && one == one && other == other)
        #expect(one != Self.decomposed && one == Self.composed)
        #expect(Set([one, other, one]).count == 2)
        #expect([one: 1, other: 2][other] == 2)
        #expect(
            ["b", "", "a\u{301}", "ab", "a", "\u{FF5E}", "\u{10000}"].map { ForeignText($0) }.sorted()
                == ["", "a", "ab", "a\u{301}", "b", "\u{FF5E}", "\u{10000}"])
        #expect(ForeignText("ab") < "abc" && !(ForeignText("abc") < "abc"))
    }

    @Test("X19 a switch, an optional and a collection compare bytes, too")
    func patterns() {
        func isOne(_ text: ForeignText) -> Bool {
            switch text {
            case Self.composed: true
            default: false
            }
        }
        #expect(isOne(one) && !isOne(other))
        let none: ForeignText? = nil
        let some: ForeignText? = other
        #expect(none == nil && some != nil && some != Self.composed && some == Self.decomposed)
        #expect(none != Self.composed && none == String?.none)
        switch some {
        case Self.composed?: Issue.record("a switch over an optional compared strings")
        default: break
        }
        #expect(
            [one].contains(Self.composed) && ![one].contains(Self.decomposed)
                && ![Self.composed].contains(other))
        #expect(Set([one]).contains(Self.composed) && !Set([one]).contains(Self.decomposed))
        #expect([one] == [Self.composed] && [one] != [Self.decomposed])
    }

    @Test("X19 beginnings and ends are bytes, and a text is cut between characters")
    func parts() {
        #expect(other.hasPrefix("e") && other.hasSuffix("\u{301}") && !one.hasPrefix("e"))
        #expect(other.hasPrefix("") && other.hasSuffix("") && !ForeignText("").hasPrefix("e"))
        #expect(!ForeignText("ab").hasPrefix("abc") && !ForeignText("bc").hasSuffix("abc"))
        #expect(ForeignText("a\u{E9}b").prefix(bytes: 2) == "a")
        #expect(ForeignText("a\u{E9}b").prefix(bytes: 3) == "a\u{E9}")
        #expect(ForeignText("\u{1F600}").prefix(bytes: 3) == "" && ForeignText("a").prefix(bytes: 1) == "a")
    }

    @Test("X19 a text is coded as a plain string, and written as one")
    func coding() throws {
        let bytes = try JSONEncoder().encode([one, other])
        #expect(bytes == (try JSONEncoder().encode([Self.composed, Self.decomposed])))
        #expect(try JSONDecoder().decode([ForeignText].self, from: bytes) == [one, other])
        #expect("\(one)" == Self.composed && "\([other])" == "\([Self.decomposed])")
        #expect(ForeignText("-12").flatMapInt == -12 && ForeignText("12x").flatMapInt == nil)
    }

    /// Every place of a stanza that a peer fills, read back as something that can be compared.
    private static let places: [(String, @Sendable (String) throws -> AnyHashable?)] = [
        ("element name", { try Element(parsing: "<\($0)/>").name }),
        ("namespace", { try Element(parsing: "<a xmlns='\($0)'/>").namespace }),
        ("attribute", { try Element(parsing: "<a b='\($0)'/>")["b"] }),
        ("attribute name", { try Element(parsing: "<a \($0)='b'/>").attributes.first?.name }),
        ("text", { try Element(parsing: "<a>\($0)</a>").text }),
        ("element", { try Element(parsing: "<a><b>\($0)</b></a>") }),
        ("id of a message", { try message("<message xmlns='jabber:client' id='\($0)'/>").id }),
        ("body", { try message("<message xmlns='jabber:client'><body>\($0)</body></message>").body }),
        ("message", { try message("<message xmlns='jabber:client'><body>\($0)</body></message>") }),
        (
            "origin id",
            { text in
                try message(
                    "<message xmlns='jabber:client'><origin-id xmlns='urn:xmpp:sid:0' id='\(text)'/></message>"
                ).originID
            }
        ),
        (
            "id of a request",
            { text in
                try IQ(element: Element(parsing: "<iq xmlns='jabber:client' type='result' id='\(text)'/>")).id
            }
        ),
        (
            "id of a presence",
            { text in
                try Presence(element: Element(parsing: "<presence xmlns='jabber:client' id='\(text)'/>")).id
            }
        ),
        ("condition", { try error("<\($0) xmlns='\(Namespaces.stanzas)'/>")?.condition }),
        ("text of an error", { try error("<text xmlns='\(Namespaces.stanzas)'>\($0)</text>")?.text }),
        (
            "form field",
            { text in
                DataForm(try Element(parsing: "<x xmlns='jabber:x:data'><field var='\(text)'/></x>"))
            }
        ),
        (
            "page",
            { text in
                ResultPage(
                    in: try Element(
                        parsing: "<a><set xmlns='\(Namespaces.rsm)'><last>\(text)</last></set></a>"))
            }
        ),
    ]

    private static func message(_ xml: String) throws -> Message {
        try Message(element: Element(parsing: xml))
    }

    private static func error(_ child: String) throws -> StanzaError? {
        StanzaError(try Element(parsing: "<error xmlns='jabber:client' type='cancel'>\(child)</error>"))
    }

    @Test("X19 what a peer wrote is compared as bytes, wherever it stood", arguments: places.indices)
    func everyPlace(index: Int) throws {
        let (place, read) = Self.places[index]
        let values = [try #require(try read(Self.composed)), try #require(try read(Self.decomposed))]
        #expect(values[0] != values[1], "\(place) is compared as a string")
        #expect(Set(values).count == 2, "\(place) is hashed as a string")
        #expect(values[0] == (try read(Self.composed)), "\(place)")
    }

    @Test("X19 children, attributes and fields are found by their bytes")
    func finding() throws {
        let element = try Element(
            parsing: "<a \(Self.composed)='1'><\(Self.composed) xmlns='\(Self.composed)'/></a>")
        #expect(element[Self.composed] == "1" && element[Self.decomposed] == nil)
        #expect(
            element.child(Self.composed, Self.composed) != nil
                && element.child(Self.decomposed, Self.composed) == nil)
        #expect(element.children(Self.composed, Self.decomposed).isEmpty)
        #expect(DataForm(.submit, [.init(Self.composed, "1")])[Self.decomposed] == nil)
    }

    @Test("X19 a type that only looks like one that is known is not known")
    func types() throws {
        // U+212A is the Kelvin sign, which String takes for a K.
        #expect("\u{212A}" == "K" && ForeignText("\u{212A}") != "K")
        #expect(Message.Kind("chat") == .chat && Message.Kind("chat\u{301}") == nil)
        #expect(IQ.Kind(ForeignText(String(repeating: "a", count: 1 << 20))) == nil)
    }

    @Test("X19 what XML cannot carry is replaced as the serializer replaces it, and nothing else is")
    func carriable() throws {
        // Every character around the borders, each beside others of its length.
        let borders: [UInt32] = [
            0, 1, 8, 9, 0xA, 0xB, 0xC, 0xD, 0xE, 0x1F, 0x20, 0x7F, 0x80, 0x9F, 0xD7FF, 0xE000, 0xEFFF, 0xF000,
            0xFFFC,
            0xFFFD, 0xFFFE, 0xFFFF, 0x1_0000, 0x1_FFFE, 0x10_FFFF,
        ]
        let scalars = borders.compactMap(Unicode.Scalar.init)
        try #require(scalars.count == borders.count)
        for first in scalars {
            for second in scalars {
                let text = ForeignText("x\(Character(first))\(Character(second))y")
                let written = Element("a", namespace: "urn:x", text: text)
                let read = try Element(parsing: written.serialized())
                #expect(text.carriable == read.text, "\(first.value) \(second.value)")
                #expect(text.carriable.carriable == text.carriable)
            }
        }
        #expect(ForeignText("").carriable == "" && ForeignText("\u{0}").carriable == "\u{FFFD}")
        // In linear time, where all of it is replaced.
        #expect(ForeignText(String(repeating: "\u{0}", count: 1 << 20)).carriable.utf8.count == 3 << 20)
    }

    @Test("X19 an address is compared as bytes, and a dot with a mark behind it parts labels")
    func addresses() throws {
        let jid = try JID("juliet@capulet.example/e\u{301}")
        #expect(jid.resource == "\u{E9}", "a resource is composed (RFC 7622 section 3.4)")
        #expect(try jid == JID("juliet@capulet.example/\u{E9}"))
        #expect(throws: JIDError.self) { try JID("a.\u{301}b") }
    }
}

extension ForeignText {
    fileprivate var flatMapInt: Int? { Int(self) }
}
