package import XMPPCore
package import XMPPTestKit

/// What makes a stanza unreadable on its way out of the scripted server.
package enum Damage {
    private static let namespace = "urn:durable-handlers:damage:0"

    /// What is written in place of the mark, by its kind: each costs one element only.
    package static let kinds: [(kind: String, text: String)] = [
        // What servers make of <xml:x/>.
        ("xml", "<x xmlns='http://www.w3.org/XML/1998/namespace'/>"),
        ("element name", "<\(long)/>"), ("attribute name", "<a \(long)='1'/>"),
        ("depth 70", depth(70)), ("depth 1000", depth(1000)),
        ("shadowed prefix", "<a xmlns:p='u'><b xmlns:p=''><p:c/></b></a>"),
        ("control character", "\u{1}"), ("comment", "<!-- <a> -->"), ("entity", "&nbsp;"),
        ("attributes", "<a" + (0..<65).map { " a\($0)='1'" }.joined() + "/>"),
    ]
    /// What leaves no boundary behind.
    package static let endless = "endless"

    private static let long = String(repeating: "n", count: 50_001)

    private static func depth(_ depth: Int) -> String {
        String(repeating: "<a>", count: depth) + String(repeating: "</a>", count: depth)
    }

    /// The mark in an element that the server is to damage.
    package static func mark(_ kind: String) -> Element {
        Element("damage", namespace: namespace, attributes: ["kind": kind])
    }

    /// Lets the server damage what is marked.
    package static func write(on server: ScriptedServer) {
        let texts = Dictionary(uniqueKeysWithValues: kinds.map { ($0.kind, $0.text) } + [(endless, "<a>")])
        server.setWriting { isMarked($0) ? text(of: $0, texts) : nil }
    }

    private static func isMarked(_ element: Element) -> Bool {
        element.elements.contains { $0.namespace == namespace || isMarked($0) }
    }

    private static func text(of element: Element, _ texts: [String: String]) -> String? {
        var text = String(decoding: Serializer().bytes(element), as: UTF8.self)
        while let start = text.firstRange(of: "<damage ") {
            guard let end = text[start.lowerBound...].firstRange(of: "/>") else { return nil }
            let kind = texts.keys.first { text[start.lowerBound..<end.lowerBound].contains("kind='\($0)'") }
            text.replaceSubrange(start.lowerBound..<end.upperBound, with: texts[kind ?? ""] ?? "")
        }
        return text
    }
}
