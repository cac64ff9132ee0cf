import TestThreads
import Testing
import XMPPCore

@Suite(.ownThread) struct ElementTests {
    private let roster = Element(
        "query", namespace: Namespaces.roster, attributes: ["ver": "7", "none": nil],
        children: [
            Element("item", namespace: Namespaces.roster, attributes: ["jid": "a@b"]),
            Element("item", namespace: "urn:other", attributes: ["jid": "c@d"]),
            Element("item", namespace: Namespaces.roster, attributes: ["jid": "e@f"]),
        ])

    @Test("X2 a child is found by name and namespace, both exactly")
    func children() {
        #expect(roster.child("item", Namespaces.roster)?["jid"] == "a@b")
        #expect(roster.child("item", "urn:other")?["jid"] == "c@d")
        #expect(roster.child("item", "") == nil)
        #expect(roster.child("Item", Namespaces.roster) == nil)
        #expect(roster.children("item", Namespaces.roster).map { $0["jid"] } == ["a@b", "e@f"])
        #expect(roster.elements.count == 3)
        #expect(roster.firstElement?["jid"] == "a@b")
        #expect(Element("a", namespace: "").firstElement == nil)
    }

    @Test("X2 an attribute given as nil is left out")
    func nilAttribute() {
        #expect(roster["ver"] == "7")
        #expect(roster["none"] == nil)
        #expect(roster.attributes.count == 1)
    }

    @Test("X2 setting an attribute replaces in place, appends, or removes")
    func setAttributes() {
        var element = Element("a", namespace: "u", attributes: ["x": "1", "y": "2", "z": "3"])
        element["y"] = "two"
        #expect(element.attributes.map(\.value) == ["1", "two", "3"])
        element["x"] = nil
        element["w"] = "0"
        element["absent"] = nil
        #expect(element.attributes.map(\.name) == ["y", "z", "w"])
    }

    @Test("X2 attributes are distinguished by namespace")
    func attributeNamespaces() {
        var element = Element("a", namespace: "u", attributes: ["xml:lang": "de", "lang": "plain"])
        element["lang", namespace: "urn:x"] = "other"
        #expect(element["xml:lang"] == "de")
        #expect(element["lang"] == "plain")
        #expect(element["lang", namespace: Namespaces.xml] == "de")
        #expect(element["lang", namespace: "urn:x"] == "other")
        element["xml:lang"] = nil
        #expect(element["lang"] == "plain")
        #expect(element.attributes.count == 2)
    }

    @Test("X2 text is what stands directly inside, joined")
    func text() {
        var element = Element(
            "a", namespace: "u", text: "one ", children: [Element("b", namespace: "u", text: "no")])
        element.append(text: "two")
        element.append(text: "")
        element.append(text: " three")
        #expect(element.text == "one two three")
        #expect(element.children.count == 3)
        #expect(Element("a", namespace: "u").text == "")
        #expect(Element("a", namespace: "u", text: "").children.isEmpty)
    }

    @Test("X2 a copy that is changed leaves the original as it was")
    func values() {
        let changed = roster.appending(Element("more", namespace: "u"))
        #expect(changed.elements.count == 4)
        #expect(roster.elements.count == 3)
        #expect(changed != roster)
        #expect(Set([roster, roster, changed]).count == 2)
    }
}
