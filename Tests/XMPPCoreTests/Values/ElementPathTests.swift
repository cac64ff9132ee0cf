import TestThreads
import Testing

@testable import XMPPCore

/// Paths: what they mean, which texts are none, and what a search costs.
@Suite(.ownThread) struct ElementPathTests {
    private static let event = Element(
        "message", namespace: Namespaces.client,
        children: [
            Element("body", namespace: Namespaces.client, text: "hi"),
            Element(
                "event", namespace: Namespaces.pubsubEvent,
                children: [
                    Element(
                        "items", namespace: Namespaces.pubsubEvent, attributes: ["node": "n"],
                        children: [
                            item("1", Element("nick", namespace: Namespaces.nick, text: "Juliet")),
                            Element("item", namespace: "urn:other", attributes: ["id": "foreign"]),
                            item(nil, Element("mood", namespace: "urn:mood", attributes: ["xml:lang": "en"])),
                            item("3", Element("bare", namespace: "", attributes: ["a": "b"])),
                        ])
                ]),
        ])

    private static func item(_ id: String?, _ payload: Element) -> Element {
        Element("item", namespace: Namespaces.pubsubEvent, attributes: ["id": id], children: [payload])
    }

    @Test(
        "X25 a step means children by name and namespace, the end an attribute or a text",
        arguments: [
            ("body", ["hi"]), ("{jabber:client}body", ["hi"]), ("{}body", []), ("{*}body", ["hi"]),
            ("Body", []), ("body/body", []), ("event/items", []),
            ("{http://jabber.org/protocol/pubsub#event}event/items/@node", ["n"]),
            ("{*}event/items/item/@id", ["1", "3"]), ("{*}event/items/{*}item/@id", ["1", "foreign", "3"]),
            ("{*}*/*/*/@id", ["1", "3"]), ("*", ["hi"]), ("{*}*", ["hi", ""]),
            ("{*}event/items/item/{http://jabber.org/protocol/nick}nick", ["Juliet"]),
            ("{*}event/items/item/nick", []), ("{*}event/items/item/{}bare/@a", ["b"]),
            ("{*}event/items/item/{*}*/@xml:lang", ["en"]), ("{*}event/items/item/{}*/@{}a", ["b"]),
            ("{*}event/items/item/{*}mood/@{http://www.w3.org/XML/1998/namespace}lang", ["en"]),
            ("{*}event/items/item/{*}mood/@lang", []), ("{*}event/items/item/{*}mood/@{}lang", []),
        ] as [(String, [String])])
    func meanings(path: String, texts: [String]) throws {
        let path = try ElementPath(path)
        #expect(Self.event.texts(at: path) == texts)
        #expect(Self.event.text(at: path) == texts.first)
        #expect(Self.event.all(at: path).count == texts.count)
        #expect(Self.event.first(at: path) == Self.event.all(at: path).first)
    }

    @Test("X25 a path of an attribute alone means the element itself, one of an element its place")
    func attributes() throws {
        let items = try #require(Self.event.first(at: "{*}event/items"))
        #expect(items.text(at: "@node") == "n" && items.first(at: "@node") == items)
        #expect(items.text(at: "@none") == nil && items.first(at: "@none") == nil)
        #expect(Self.event.all(at: "{*}event/items/item").count == 3)
        #expect(Self.event.first(at: "{*}event/items/item/@id")?["id"] == "1")
    }

    @Test(
        "X25 a text that is no path says why",
        arguments: [
            ("", .missingName), ("/", .missingName), ("a/", .missingName), ("/a", .missingName),
            ("a//b", .missingName), ("{urn:x}", .missingName), ("a/@", .missingName),
            ("@{urn:x}", .missingName),
            ("{urn:x", .misplacedCharacter), ("a}", .misplacedCharacter), ("a{urn:x}b", .misplacedCharacter),
            ("{a}{b}c", .misplacedCharacter), ("a@id", .misplacedCharacter), ("@@id", .misplacedCharacter),
            ("{a}@id", .misplacedCharacter), ("a b", .misplacedCharacter), (" a", .misplacedCharacter),
            ("a\n", .misplacedCharacter), ("@*", .misplacedCharacter), ("@{*}id", .misplacedCharacter),
            ("@id/a", .attributeNotLast), ("a/@id/@b", .attributeNotLast), ("@id/", .attributeNotLast),
            ("a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a", .tooManySteps),
        ] as [(String, ErrorCode<ElementPathError>)])
    func refused(text: String, code: ErrorCode<ElementPathError>) throws {
        let error = #expect(throws: ElementPathError.self) { try ElementPath(text as String) }
        #expect(error?.code == code)
    }

    @Test("X25 the error of a path shows it as far as it was read, short and visible")
    func messages() throws {
        func message(_ text: String) -> String? {
            #expect(throws: ElementPathError.self) { try ElementPath(text) }?.description
        }
        #expect(message("items//item") == "Write a name for each step of 'items//'.")
        #expect(message("item@id/x") == "Take the last character out of 'item@'.")
        #expect(message("\u{1B}[2J") == "Take the last character out of '\\u{1B}'.")
        let long = try #require(message(String(repeating: "a", count: 1 << 20) + "}"))
        #expect(long.utf8.count < 200)
    }

    @Test("X25 what is interpolated is a name, whatever it holds, and cannot end the program")
    func interpolation() throws {
        let foreign = ["a/b", "*", "", "{x}", "@id", "}", "\u{0} \n", "é"]
        for name in foreign {
            let element = Element(
                "x", namespace: "urn:x", attributes: ["id": "own"],
                children: [
                    Element("y", namespace: "urn:x", attributes: ["id": "other"]),
                    Element(name, namespace: "urn:x", attributes: ["id": "found"]),
                    Element("z", namespace: name, attributes: ["id": "there"]),
                ])
            #expect(element.texts(at: "\(name)/@id") == ["found"], "\(name)")
            #expect(element.texts(at: "{\(name)}z/@id") == ["there"], "\(name)")
            #expect(element.text(at: "@\(name)") == nil, "\(name)")
            var named = element
            named.attributes.append(
                Element.Attribute(rawName: ForeignText(name), namespace: nil, value: "of that name"))
            #expect(named.text(at: "@\(name)") == "of that name", "\(name)")
        }
        #expect(try ElementPath("\("a")b/{urn:\("x")}c") == ElementPath("ab/{urn:x}c" as String))
    }

    @Test("X25 a path is written as it is read")
    func descriptions() throws {
        for text in ["a", "*", "{*}*", "{urn:x}a/b/{}c", "a/@id", "@{urn:x}id", "@id"] {
            let path = try ElementPath(text as String)
            #expect(path.description == text)
        }
    }

    @Test(
        "X25 a search looks at each child once, and an element as deep as memory allows does not end the program"
    )
    func linear() throws {
        // Every element is a match of every step but the last: a search that started again would take sixteen times as long.
        var wide = Element("a", namespace: "", attributes: ["id": "leaf"])
        for _ in 0..<4 {
            wide = Element(
                "a", namespace: "", children: [Element](repeating: wide, count: 16))
        }
        let longest = try ElementPath([String](repeating: "a", count: 4).joined(separator: "/") + "/@none")
        let time = processorTime { #expect(wide.first(at: longest) == nil) }
        #expect(wide.all(at: "*/*/*/*/@id").count == 65_536)
        #expect(time < 2000)
        let names = String(repeating: "\u{301}", count: 500_000)
        let flat = Element(
            "a", namespace: "",
            children: (0..<100).map { Element(names + String($0 + 100), namespace: "") })
        let search = processorTime {
            #expect(flat.all(at: "\(names)199").count == 1)
            #expect(flat.all(at: "\(names)19").isEmpty)
        }
        #expect(search < 3000)
    }
}
