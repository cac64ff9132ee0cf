@testable import PubSub
import TestThreads
import Testing
import XMPPCore

@Suite(.ownThread) struct PubSubErrorTests {
    /// The elements of the schema of `http://jabber.org/protocol/pubsub#errors`, as XEP-0060 section 18.2 has them.
    private static let schema = """
          <xs:element name='closed-node' type='empty'/>
          <xs:element name='configuration-required' type='empty'/>
          <xs:element name='invalid-jid' type='empty'/>
          <xs:element name='invalid-options' type='empty'/>
          <xs:element name='invalid-payload' type='empty'/>
          <xs:element name='invalid-subid' type='empty'/>
          <xs:element name='item-forbidden' type='empty'/>
          <xs:element name='item-required' type='empty'/>
          <xs:element name='jid-required' type='empty'/>
          <xs:element name='max-items-exceeded' type='empty'/>
          <xs:element name='max-nodes-exceeded' type='empty'/>
          <xs:element name='nodeid-required' type='empty'/>
          <xs:element name='not-in-roster-group' type='empty'/>
          <xs:element name='not-subscribed' type='empty'/>
          <xs:element name='payload-too-big' type='empty'/>
          <xs:element name='payload-required' type='empty'/>
          <xs:element name='pending-subscription' type='empty'/>
          <xs:element name='precondition-not-met' type='empty'/>
          <xs:element name='presence-subscription-required' type='empty'/>
          <xs:element name='subid-required' type='empty'/>
          <xs:element name='too-many-subscriptions' type='empty'/>
          <xs:element name='unsupported'>
          <xs:element name='unsupported-access-model' type='empty'/>
        """

    /// The example of section 7.1.3.4, whose condition the schema lacks.
    private static let nodeFull = "<node-full xmlns='http://jabber.org/protocol/pubsub#errors'/>"

    /// All conditions of XEP-0060, in the order of the alphabet.
    private static let conditions = PubSubError.advices.keys.sorted().map {
        PubSubError.Condition(rawValue: $0)
    }

    @Test("P7 the table has every condition of the XEP's schema and its one other, and none that it made up")
    func table() throws {
        let names = Self.schema.matches(of: /name='([a-z-]+)'/).map { String($0.output.1) }
        #expect(names.count == 23)
        let other = try Element(parsing: Self.nodeFull)
        #expect(other.namespace == Namespaces.pubsubErrors)
        #expect(
            Self.conditions.map(\.description).sorted()
                == (names + [other.name.string]).sorted())
        // Those that programs can name.
        let named: [PubSubError.Condition] = [
            .notSubscribed, .payloadTooBig, .pendingSubscription, .preconditionNotMet,
            .presenceSubscriptionRequired, .unsupported,
        ]
        #expect(Set(named.map(\.description)).isSubset(of: names))
        #expect(Set(named).count == named.count)
    }

    private static func error(_ conditions: String, type: String = "cancel") throws -> PubSubError {
        let xml = "<error type='\(type)'>\(conditions)</error>"
        return PubSubError(
            try #require(StanzaError(Element(parsing: xml, defaultNamespace: Namespaces.client))))
    }

    private static let conflict = "<conflict xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>"

    @Test(
        "P7 each condition is read from its namespace and says what to do",
        arguments: conditions)
    func condition(_ condition: PubSubError.Condition) throws {
        let xml = "<\(condition) xmlns='http://jabber.org/protocol/pubsub#errors'/>"
        let error = try Self.error(Self.conflict + xml)
        #expect(error.condition == condition)
        #expect(error.stanzaError.condition == .conflict)
        let parts = try #require(
            error.description.wholeMatch(of: /the PubSub service answered with ([^;]+); (.{10,})/)?.output)
        #expect(parts.1 == "\(condition) (conflict)")
        #expect(parts.2 != "trying the same again will not help")
    }

    @Test("P7 only the namespace of PubSub's errors counts, which ends in a plural")
    func otherNamespaces() throws {
        for namespace in [
            "http://jabber.org/protocol/pubsub#error", "http://jabber.org/protocol/pubsub", "urn:x",
        ] {
            let error = try Self.error(Self.conflict + "<node-full xmlns='\(namespace)'/>")
            #expect(error.condition == nil)
            #expect(error.description.contains("answered with conflict; "))
        }
    }

    @Test("P7 of two conditions of PubSub the first one counts, one that looks alike before it does not")
    func twoConditions() throws {
        let own = "xmlns='http://jabber.org/protocol/pubsub#errors'"
        let iq = try IQ(
            element: Element(
                parsing:
                    "<iq type='error' id='1'><error type='auth'><not-authorized xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/><closed-node xmlns='urn:x'/><not-subscribed \(own)/><unsupported \(own) feature='x'/></error></iq>",
                defaultNamespace: Namespaces.client))
        let error = PubSubError(try #require(iq.error), in: iq)
        #expect(error.condition == .notSubscribed)
        #expect(error.unsupportedFeature == nil)
        #expect(!error.isNotFound)
    }

    @Test("P7 an unsupported feature is named; a condition of a later version is kept by its name")
    func openEnds() throws {
        let unsupported = try Self.error(
            "<feature-not-implemented xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>"
                + "<unsupported xmlns='http://jabber.org/protocol/pubsub#errors' feature='retrieve-items'/>")
        #expect(unsupported.condition == .unsupported)
        #expect(unsupported.unsupportedFeature == "retrieve-items")
        #expect(
            unsupported.description
                == "the PubSub service answered with unsupported (feature-not-implemented), feature retrieve-items; the service lacks a feature; do without it"
        )
        let later = try Self.error(
            Self.conflict + "<brand-new xmlns='http://jabber.org/protocol/pubsub#errors' feature='x'/>",
            type: "wait")
        #expect(later.condition?.rawValue == "brand-new")
        #expect(later.unsupportedFeature == nil)
        #expect(later.description.hasSuffix("; try again later"))
    }
}
