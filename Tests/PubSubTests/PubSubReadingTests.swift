@testable import PubSub
import TestThreads
import Testing
import XMPPAccount
import XMPPCore

/// What an answer means, without account, store or clock.
@Suite(.ownThread) struct PubSubReadingTests {
    private func iq(_ type: String, _ children: String) throws -> IQ {
        try IQ(
            element: Element(
                parsing: "<iq type='\(type)' id='a'>\(children)</iq>", defaultNamespace: Namespaces.client))
    }

    private func reply(_ iq: IQ) -> IQReply.Outcome {
        iq.error.map { .error($0) } ?? .result(iq.payload)
    }

    private func fetched(_ type: String, _ children: String) throws -> PubSubFetch.Outcome {
        let iq = try iq(type, children)
        return PubSubReading.fetch(reply(iq), in: iq, node: "n")
    }

    private func published(_ type: String, _ children: String, id: String?) throws
        -> PubSubPublication.Outcome
    {
        let iq = try iq(type, children)
        return PubSubReading.publish(reply(iq), in: iq, itemID: id.map { ForeignText($0) })
    }

    private func pubsub(_ xml: String) -> String {
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'>\(xml)</pubsub>"
    }

    private func error(_ condition: String, _ more: String = "") -> String {
        "<error type='cancel'><\(condition) xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>\(more)</error>"
    }

    private func own(_ condition: String) -> String {
        "<\(condition) xmlns='http://jabber.org/protocol/pubsub#errors'/>"
    }

    @Test("P3 items come in the order of the answer, with their ids and payloads")
    func items() throws {
        let outcome = try fetched(
            "result",
            pubsub(
                """
                <items node='n'><item id='2'><a xmlns='urn:x'>two</a></item><item id='1'/>\
                <item xmlns='urn:other' id='0'/><item><b xmlns='urn:x'/></item></items>
                """))
        #expect(
            outcome
                == .success([
                    PubSubItem(id: "2", payload: Element("a", namespace: "urn:x", text: "two")),
                    PubSubItem(id: "1"), PubSubItem(payload: Element("b", namespace: "urn:x")),
                ]))
        #expect(try fetched("result", pubsub("<items node='n'/>")) == .success([]))
    }

    @Test("P7 only item-not-found without a pubsub condition means that there is nothing")
    func notFound() throws {
        #expect(try fetched("error", error("item-not-found")) == .notFound)
        // A service may put conditions of other extensions beside it.
        #expect(try fetched("error", error("item-not-found", "<x xmlns='urn:x'/>")) == .notFound)
        for answer in [
            error("item-not-found", own("presence-subscription-required")), error("service-unavailable"),
            error("remote-server-timeout"), error("remote-server-not-found"), error("gone"),
            error("forbidden"),
            error("not-authorized", own("not-subscribed")),
            error("feature-not-implemented", own("unsupported")), "",
        ] {
            let outcome = try fetched("error", answer)
            guard case .error = outcome else {
                Issue.record("\(answer) was read as \(outcome)")
                continue
            }
        }
    }

    @Test("P7 the pubsub condition is found behind another extension's")
    func conditionBehindAnother() throws {
        let outcome = try fetched("error", error("forbidden", "<x xmlns='urn:x'/>" + own("closed-node")))
        guard case .error(let error) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(error.condition == PubSubError.Condition(rawValue: "closed-node"))
        #expect(error.stanzaError.condition == .forbidden)
    }

    @Test("P7 an answer about something else is an error, never an empty list")
    func misplacedAnswers() throws {
        for answer in [
            "", pubsub(""), pubsub("<items node='other'/>"), pubsub("<items/>"),
            "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><items node='n'/></pubsub>",
            pubsub("<items xmlns='urn:x' node='n'/>"), pubsub("<publish node='n'/>"),
            "<items xmlns='http://jabber.org/protocol/pubsub' node='n'/>",
        ] {
            let outcome = try fetched("result", answer)
            guard case .error(let error) = outcome else {
                Issue.record("\(answer) was read as \(outcome)")
                continue
            }
            #expect(error.description.contains("the answer does not speak of the items of 'n'"))
        }
    }

    @Test("P2 a publication is known by the answer's id, else by its own; an empty answer is success")
    func published() throws {
        let chosen = pubsub("<publish node='n'><item id='new'/></publish>")
        #expect(try published("result", chosen, id: nil) == .success("new"))
        #expect(try published("result", chosen, id: "mine") == .success("new"))
        #expect(try published("result", pubsub("<publish node='n'/>"), id: "mine") == .success("mine"))
        #expect(try published("result", "", id: "mine") == .success("mine"))
        #expect(try published("result", "", id: nil) == .success(nil))
    }

    @Test("P2 a precondition that is not met has an outcome of its own, whatever stands beside it")
    func preconditionNotMet() throws {
        for general in ["conflict", "not-acceptable", "item-not-found"] {
            let outcome = try published("error", error(general, own("precondition-not-met")), id: nil)
            guard case .error(let error) = outcome, error.condition == .preconditionNotMet else {
                Issue.record("\(general) was read as \(outcome)")
                continue
            }
            #expect(error.stanzaError.condition.rawValue == general)
        }
        guard case .error(let error) = try published("error", error("conflict", own("node-full")), id: nil)
        else {
            Issue.record("node-full was read as a precondition")
            return
        }
        #expect(error.condition == PubSubError.Condition(rawValue: "node-full"))
    }
}
