@testable import PubSub
import Testing
import XMPPAccount
import XMPPCore

/// Checklist A of the requirements, rows 9 and 12: the exact XML of what is asked.
@Suite struct PubSubRequestTests {
    private static let entry = Element("entry", namespace: "http://www.w3.org/2005/Atom", text: "Soliloquy")

    /// The examples of XEP-0060 section 6.5, on one line each.
    @Test(
        "P3 items are asked for in the words of the XEP: all, the newest, one by id, several by id",
        arguments: [
            (PubSubSelection.all, "<items node='princely_musings'/>"),
            (.newest(2), "<items node='princely_musings' max_items='2'/>"),
            (
                .ids(["ae890ac52d0df67ed7cfdf51b644e901"]),
                "<items node='princely_musings'><item id='ae890ac52d0df67ed7cfdf51b644e901'/></items>"
            ),
            (.ids(["a", "b"]), "<items node='princely_musings'><item id='a'/><item id='b'/></items>"),
        ])
    func items(_ selection: PubSubSelection, _ xml: String) throws {
        let expected = "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\(xml)</pubsub>"
        #expect(try PubSubRequest.items(selection, of: "princely_musings").serialized() == expected)
    }

    /// The examples of sections 7.1.1 and 7.1.5.
    @Test(
        "P2 an item is published in the words of the XEP: none, one with and one without an id, one with options"
    )
    func publish() throws {
        func published(_ item: PubSubItem?, _ options: [PubSubOption] = []) throws -> String {
            try PubSubRequest.publish(item, on: "princely_musings", requiring: options).serialized()
        }
        func expected(_ xml: String, behind: String = "") -> String {
            "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\(xml)\(behind)</pubsub>"
        }
        let entry = "<entry xmlns='http://www.w3.org/2005/Atom'>Soliloquy</entry>"
        #expect(try published(nil) == expected("<publish node='princely_musings'/>"))
        #expect(
            try published(PubSubItem(payload: Self.entry))
                == expected("<publish node='princely_musings'><item>\(entry)</item></publish>"))
        let one = "<publish node='princely_musings'><item id='bnd81g37d61f49fgn581'>\(entry)</item></publish>"
        let item = PubSubItem(id: "bnd81g37d61f49fgn581", payload: Self.entry)
        #expect(try published(item) == expected(one))
        let options = """
            <publish-options><x xmlns='jabber:x:data' type='submit'>\
            <field var='FORM_TYPE' type='hidden'><value>http://jabber.org/protocol/pubsub#publish-options</value></field>\
            <field var='pubsub#access_model'><value>presence</value></field></x></publish-options>
            """
        #expect(try published(item, [.accessModel(.presence)]) == expected(one, behind: options))
    }

    @Test("P2 options are fields of the node's configuration, under the names of the XEP")
    func options() {
        let options: [PubSubOption] = [
            .accessModel(.open), .persistItems(true), .persistItems(false), .maximumItems(3),
            .maximumItemsUnlimited, PubSubOption("pubsub#contact", ["a@b", "c@d"]),
        ]
        #expect(
            options.map { "\($0.name)=\($0.values.joined(separator: ","))" } == [
                "pubsub#access_model=open", "pubsub#persist_items=true", "pubsub#persist_items=false",
                "pubsub#max_items=3", "pubsub#max_items=max", "pubsub#contact=a@b,c@d",
            ])
        #expect(
            PubSubAccessModel.defined.map(\.rawValue) == [
                "open", "presence", "roster", "authorize", "whitelist",
            ])
    }

    @Test("P3 what would mean something else is refused: no node, no id, an empty id, no newest item")
    func refusals() {
        func code(_ body: () throws -> Element) -> AccountError.Code? {
            do {
                _ = try body()
                return nil
            } catch {
                return (error as? AccountError)?.code
            }
        }
        #expect(code { try PubSubRequest.items(.all, of: "") } == .invalidStanza)
        #expect(code { try PubSubRequest.items(.ids([]), of: "n") } == .invalidStanza)
        #expect(code { try PubSubRequest.items(.ids(["a", ""]), of: "n") } == .invalidStanza)
        #expect(code { try PubSubRequest.items(.newest(0), of: "n") } == .invalidStanza)
        #expect(code { try PubSubRequest.publish(nil, on: "", requiring: []) } == .invalidStanza)
        #expect(code { try PubSubRequest.items(.newest(1), of: "n") } == nil)
    }
}
