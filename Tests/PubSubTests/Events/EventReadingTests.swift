import TestThreads
import Testing
import XMPPCore

@testable import PubSub

/// What the XML of events means.
@Suite(.ownThread) struct EventReadingTests {
    private static let namespace = "http://jabber.org/protocol/pubsub#event"

    struct Example: CustomTestStringConvertible {
        let xml: String
        let words: [String]
        /// Whether the words say all of it, so that it is written as it came.
        var isWhole = true
        var testDescription: String { xml }
    }

    /// The examples of XEP-0060 and XEP-0248, and what services make of them.
    static let examples = [
        Example(
            xml: "<items node='n'><item id='1'><e xmlns='urn:x'>a</e></item></items>", words: ["items 1=a"]),
        // An item holds one payload (7.1.3.6); of several the first one counts.
        Example(
            xml: "<items node='n'><item id='1'>a<e xmlns='urn:x'>b</e><f xmlns='urn:x'>c</f></item></items>",
            words: ["items 1=b"], isWhole: false),
        Example(xml: "<items node='n'/>", words: ["items "]),
        Example(xml: "<items node='n'><item id='1'/></items>", words: ["items 1=-"]),
        Example(
            xml:
                "<items node='n'><item id='1' publisher='portia@merchant.example'/><item><e xmlns='urn:x'>b</e></item></items>",
            words: ["items 1=-,-=b"]),
        Example(
            xml: "<items node='n'><retract id='1'/><retract id='2'/></items>", words: ["retracted 1,2"]),
        Example(
            xml: "<items node='n'><item id='1'/><retract id='2'/><item id='3'/><item id='4'/></items>",
            words: ["items 1=-", "retracted 2", "items 3=-,4=-"], isWhole: false),
        Example(xml: "<items node='n'><retract/></items>", words: [], isWhole: false),
        Example(xml: "<purge node='n'/>", words: ["purged"]),
        Example(xml: "<delete node='n'/>", words: ["deleted -"]),
        Example(
            xml: "<delete node='n'><redirect uri='xmpp:hamlet@denmark.lit?;node=blog'/></delete>",
            words: ["deleted xmpp:hamlet@denmark.lit?;node=blog"]),
        Example(xml: "<configuration node='n'/>", words: ["configured -"]),
        Example(
            xml:
                "<configuration node='n'><x xmlns='jabber:x:data' type='result'><field var='pubsub#title'><value>Princely Musings</value></field></x></configuration>",
            words: ["configured Princely Musings"]),
        Example(
            xml: "<subscription jid='horatio@denmark.lit' node='n' subscription='none'/>",
            words: ["subscription horatio@denmark.lit none - -"]),
        Example(
            xml:
                "<subscription expiry='2006-02-28T23:59:59Z' jid='francisco@denmark.lit' node='n' subid='ba49' subscription='subscribed'/>",
            words: ["subscription francisco@denmark.lit subscribed ba49 1141171199000"], isWhole: false),
        Example(xml: "<subscription node='n' subscription='none'/>", words: [], isWhole: false),
        Example(xml: "<collection node='n'><associate node='m'/></collection>", words: ["associated m"]),
        Example(
            xml: "<collection node='n'><disassociate node='m'/></collection>", words: ["disassociated m"]),
        Example(xml: "<unheard-of node='n'/>", words: [], isWhole: false),
        Example(xml: "<purge xmlns='urn:x' node='n'/>", words: [], isWhole: false),
    ]

    @Test("P4 each kind of event is read as what it is, and stored as it came", arguments: examples)
    func reading(example: Example) throws {
        let element = try Element(parsing: example.xml, defaultNamespace: Self.namespace)
        let changes = PubSubEvent.Change.read(element)
        #expect(changes.map(EventApp.words) == example.words)
        for change in changes {
            #expect(PubSubEvent.Change.read(change.element(node: "n")) == [change])
        }
        if example.isWhole { #expect(changes.map { $0.element(node: "n") } == [element]) }
    }

    @Test(
        "P4 a purge, a deletion and a retraction are never items, not even empty ones",
        arguments: [
            "<purge node='n'/>", "<delete node='n'/>", "<items node='n'><retract id='1'/></items>",
            "<items node='n'><retract/></items>",
        ])
    func neverItems(xml: String) throws {
        let element = try Element(parsing: xml, defaultNamespace: Self.namespace)
        for change in PubSubEvent.Change.read(element) {
            if case .items = change { Issue.record("\(xml) was taken for items") }
        }
    }

    @Test("P4 the names of events are those of XEP-0060's schema")
    func names() {
        // XEP-0060 section 18.4.
        #expect(Wire.subscriptionID == "subid")
        #expect(EventWire.headers == "http://jabber.org/protocol/shim")
        #expect(EventWire.subscriptionHeader == "SubID")
        #expect(EventWire.notify == "+notify")
    }
}
