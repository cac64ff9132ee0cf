import HandlersTestKit
import ParserVerifier
import XMPPCore

/// Elements of any shape that can be written and read back exactly.
enum RandomElement {
    private static let names = [
        "a", "b", "message", "é", "x.y", "_", "long-name-of-an-element-that-is-no-small-string",
    ]
    private static let namespaces = [
        "", "jabber:client", "urn:x", "http://etherx.jabber.org/streams", "a b&'<\">c",
        "http://www.w3.org/XML/1998/namespace",
    ]
    private static let texts = [
        "", " ", "x", "\n", "\r\n", "\t", "<a>&amp;</a>", "]]>", "'\"", "é漢🙂",
        "\u{FFFD}\u{E000}\u{10FFFF}\u{85}\u{2028}",
        String(repeating: "0123456789 ", count: 60), String(repeating: "漢\r", count: 200),
    ]

    static func make(depth: Int, using generator: inout SeededGenerator) -> Element {
        var element = Element(
            name: ForeignText(pick(names, &generator)), namespace: ForeignText(pick(namespaces, &generator)),
            attributes: attributes(&generator), children: [])
        if depth == 0 { return element }
        for _ in 0..<Int.random(in: 0...3, using: &generator) {
            element.append(text: pick(texts, &generator))
            if Bool.random(using: &generator) { element.append(make(depth: depth - 1, using: &generator)) }
        }
        return element
    }

    private static func attributes(_ generator: inout SeededGenerator) -> [Element.Attribute] {
        var element = Element("x", namespace: "")
        for _ in 0..<Int.random(in: 0...4, using: &generator) {
            let namespace = pick(namespaces, &generator)
            if namespace.isEmpty {
                element[pick(names, &generator)] = ForeignText(pick(texts, &generator))
            } else {
                element[pick(names, &generator), namespace: namespace] = ForeignText(pick(texts, &generator))
            }
        }
        return element.attributes
    }

    private static func pick(_ list: [String], _ generator: inout SeededGenerator) -> String {
        list[Int.random(in: 0..<list.count, using: &generator)]
    }
}
