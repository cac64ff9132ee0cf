import HandlersTestKit
import XMPPCore
import XMPPTestKit

/// Stanzas of strangers, and bad items among good ones. None of them may have an effect or end a connection.
struct HostileStanzas {
    /// The id of the last request to the peer, which a stranger may try to answer.
    let question: String
    /// The number of messages that the peer has sent.
    let lastMessage: Int
    let hasLists: Bool
    let hasLimits: Bool

    private static let xmlNamespace = "http://www.w3.org/XML/1998/namespace"
    private static let body = Element("body", namespace: Namespaces.client, text: "3")

    /// Returns one stanza, or the same stanza a hundred times.
    func some(using random: inout SeededGenerator) -> [Element] {
        let count = hasLists ? 19 : 17
        let kind = Int.random(in: 0..<count + 1, using: &random)
        if kind < count { return [stanza(kind)] }
        if hasLimits, Bool.random(using: &random) {
            return [Self.long(kind: Int.random(in: 0..<4, using: &random))]
        }
        return Array(repeating: stanza([9, 12, 13].randomElement(using: &random) ?? 9), count: 100)
    }

    private func stanza(_ kind: Int) -> Element {
        let answer = Element("answer", namespace: WorldApp.namespace, attributes: ["forged": "yes"])
        let body = Self.body
        return switch kind {
        case 0: stanza("iq", ["type": "result", "id": question], [answer])
        case 1: stanza("iq", ["type": "error", "id": question])
        case 2: stanza("iq", ["type": "odd", "id": "s-1"])
        case 3: stanza("iq", ["type": "get"])
        case 4: stanza("iq", ["type": "set", "id": HostileText.marks(2000)], [answer, answer])
        case 5: stanza("message", ["type": "chat", "id": "p-\(lastMessage)"], [body])
        case 6: stanza("message", ["id": HostileText.marks(3000)], [answer, body, body])
        case 7: stanza("message", ["type": "error", "id": "m-1"])
        case 8: stanza("presence", ["type": "unavailable", "id": HostileText.marks(500)], [answer])
        case 9: message([Self.deep(levels: 150)])
        case 10: message([Self.deep(levels: 1000)])
        case 11: message([Self.wide(attributes: 300)])
        // Servers with another parser relay stanzas that libxml2 rejects.
        case 12: message([Element("x", namespace: Self.xmlNamespace)])
        case 13: message([Self.shadowed])
        case 14: message([Element("body", namespace: Namespaces.client, text: Self.reversed)])
        case 15: message([Element("\(Self.longName)", namespace: WorldApp.namespace)])
        case 16: message([Self.named])
        case 17: push("query", Namespaces.roster)
        default: push("block", Namespaces.blocking)
        }
    }

    private func message(_ children: [Element]) -> Element {
        stanza("message", ["id": "s-2"], children + [Self.body])
    }

    private func push(_ name: String, _ space: String) -> Element {
        let item = Element(
            "item", namespace: space, attributes: ["jid": WorldLists.contact(0), "name": "forged"])
        return stanza(
            "iq", ["type": "set", "id": "push-0"], [Element(name, namespace: space, children: [item])])
    }

    private func stanza(_ name: String, _ attributes: [String: String], _ children: [Element] = []) -> Element
    {
        let all = attributes.merging(["to": "\(WorldServer.account)", "from": "\(WorldServer.stranger)"]) {
            own, _ in own
        }
        var element = Element("\(name)", namespace: Namespaces.client)
        for (name, value) in all.sorted(by: { $0.key < $1.key }) { element["\(name)"] = "\(value)" }
        for child in children { element.append(child) }
        return element
    }

    // MARK: Long ones

    private static let longWord = String(repeating: "w", count: 1000)

    /// Stanzas whose addresses and ids, each within its limit, are longer together than a row of an index may be.
    private static func long(kind: Int) -> Element {
        let id = kind == 3 ? String(repeating: "i", count: 300_000) : longWord
        let from = kind == 3 ? "\(WorldServer.stranger)" : "\(longWord)@evil.example/\(longWord)"
        var element = Element(
            kind == 0 ? "message" : kind == 1 ? "presence" : "iq", namespace: Namespaces.client)
        element["to"] = "\(WorldServer.account)"
        element["from"] = "\(from)"
        element["id"] = "\(id)"
        switch kind {
        case 0: element.append(body)
        case 1: element.append(Element("status", namespace: Namespaces.client, text: "long"))
        case 2:
            element["type"] = "get"
            element.append(Element("answer", namespace: WorldApp.namespace))
        default:
            element["type"] = "get"
            element.append(Element("ping", namespace: Namespaces.ping))
        }
        return element
    }

    // MARK: Parts

    static let badID: ForeignText = "bad"

    /// A bad item, for a list whose other items are good.
    static func item(space: String) -> Element {
        Element(
            "item", namespace: space, attributes: ["id": badID, "jid": "@", "subscription": "none"],
            children: [Element("x", namespace: xmlNamespace)])
    }

    private static let reversed = String(repeating: "\u{202E}x", count: 5000)
    private static let longName = String(repeating: "n", count: 50_001)

    private static var named: Element {
        var element = Element("x", namespace: WorldApp.namespace)
        element["\(longName)"] = "1"
        return element
    }

    private static func deep(levels: Int) -> Element {
        (0..<levels).reduce(Element("x", namespace: WorldApp.namespace)) { inner, _ in
            Element("x", namespace: WorldApp.namespace, children: [inner])
        }
    }

    private static func wide(attributes count: Int) -> Element {
        var element = Element("x", namespace: WorldApp.namespace)
        for number in 0..<count { element["a\(number)"] = "\(number)" }
        return element
    }

    // MARK: Bytes

    /// A placeholder for ``shadowedText``, which no element can express because elements have no prefixes.
    private static let shadowed = Element("shadowed-prefixes", namespace: WorldApp.namespace)
    private static let shadowedText =
        "<s:x xmlns:s='urn:one'><s:x xmlns:s='urn:two' s:a='1'><s:x xmlns:s='urn:one'/></s:x><s:x/></s:x>"

    /// The bytes of a stanza.
    static func bytes(_ element: Element) -> [UInt8] {
        let bytes = Serializer().bytes(element)
        guard element.elements.contains(where: { $0 == shadowed }) else { return bytes }
        let placeholder = Serializer().bytes(shadowed)
        guard let start = bytes.firstRange(of: placeholder) else { return bytes }
        return bytes[..<start.lowerBound] + Array(shadowedText.utf8) + bytes[start.upperBound...]
    }
}
