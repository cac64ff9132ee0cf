@testable import PubSub
import TestThreads
import Testing
import XMPPAccount
import XMPPCore

/// Checklist A of the requirements, rows 1 to 15: the exact XML of what is asked, in the words of XEP-0060's examples.
@Suite(.ownThread) struct PubSubRequestTests {
    private static let entry = Element("entry", namespace: "http://www.w3.org/2005/Atom", text: "Soliloquy")
    private let node = "princely_musings"

    /// What is sent: the type of the IQ, and its payload without the element around it.
    private func sent<Context>(
        _ operation: PubSubOperation<Context>, as own: String = "francisco@denmark.lit"
    ) throws -> [String] {
        let payload = try operation.payload(JID(own))
        let isOwner = payload.namespace == Namespaces.pubsubOwner
        let start = "<pubsub xmlns='http://jabber.org/protocol/pubsub\(isOwner ? "#owner" : "")'>"
        let text = payload.serialized()
        #expect(text.hasPrefix(start) && text.hasSuffix("</pubsub>"))
        return [
            operation.type.rawValue + (isOwner ? " owner" : ""),
            String(text.dropFirst(start.count).dropLast("</pubsub>".count)),
        ]
    }

    private func form(_ type: String, _ fields: String) -> String {
        """
        <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'>\
        <value>http://jabber.org/protocol/pubsub#\(type)</value></field>\(fields)</x>
        """
    }

    private let whitelist = "<field var='pubsub#access_model'><value>whitelist</value></field>"
    private let deliver = "<field var='pubsub#deliver'><value>1</value></field>"
    private let delivering = [PubSubOption("pubsub#deliver", ["1"])]

    // MARK: Rows 1 to 3, 7, 8, 11: nodes

    @Test("P1 A1 an instant node is created without a name")
    func createInstant() throws {
        #expect(try sent(.create()) == ["set", "<create/>"])
    }

    @Test("P1 A2 a node is created with its configuration behind it, which names no node")
    func createConfigured() throws {
        #expect(try sent(.create(node)) == ["set", "<create node='princely_musings'/>"])
        let configure = "<configure>\(form("node_config", whitelist))</configure>"
        #expect(
            try sent(.create(node, with: [.accessModel(.whitelist)]))
                == ["set", "<create node='princely_musings'/>\(configure)"])
        #expect(try sent(.create(with: [.accessModel(.whitelist)])) == ["set", "<create/>\(configure)"])
    }

    @Test("P1 A3 a node is deleted, with a redirection if one is given")
    func delete() throws {
        #expect(try sent(.delete(node)) == ["set owner", "<delete node='princely_musings'/>"])
        #expect(
            try sent(.delete(node, redirect: "xmpp:hamlet@denmark.lit?;node=blog"))
                == [
                    "set owner",
                    "<delete node='princely_musings'><redirect uri='xmpp:hamlet@denmark.lit?;node=blog'/></delete>",
                ])
    }

    @Test("P1 A7 the default configuration and that of a node are both asked for with a get of the owner")
    func configurations() throws {
        #expect(try sent(.defaultConfiguration) == ["get owner", "<default/>"])
        #expect(try sent(.configuration(of: node)) == ["get owner", "<configure node='princely_musings'/>"])
    }

    @Test("P1 A8 a node is configured with a form that says what it is")
    func configure() throws {
        let fields = whitelist + "<field var='pubsub#contact'><value>a@b</value><value>c@d</value></field>"
        #expect(
            try sent(
                .configure(
                    node, with: [.accessModel(.whitelist), PubSubOption("pubsub#contact", ["a@b", "c@d"])]))
                == [
                    "set owner",
                    "<configure node='princely_musings'>\(form("node_config", fields))</configure>",
                ])
    }

    @Test("P1 A11 a node is purged by its owner")
    func purge() throws {
        #expect(try sent(.purge(node)) == ["set owner", "<purge node='princely_musings'/>"])
    }

    // MARK: Rows 4 to 6, 13: subscriptions

    @Test(
        "P3 A4 A6 the bare address is subscribed unless another one is given",
        arguments: [nil, "francisco@denmark.lit", "francisco@denmark.lit/barracks", "bernardo@denmark.lit/a"])
    func subscribe(_ jid: String?) throws {
        let address = jid ?? "francisco@denmark.lit"
        let given = try jid.map { try JID($0) }
        #expect(
            try sent(.subscribe(to: node, as: given))
                == ["set", "<subscribe node='princely_musings' jid='\(address)'/>"])
        #expect(
            try sent(.unsubscribe(from: node, as: given))
                == ["set", "<unsubscribe node='princely_musings' jid='\(address)'/>"])
        #expect(
            try sent(.unsubscribe(from: node, as: given, id: "ba49"))
                == ["set", "<unsubscribe node='princely_musings' jid='\(address)' subid='ba49'/>"])
    }

    @Test("P3 A5 options stand behind the subscription and name neither node nor address")
    func subscribeWithOptions() throws {
        #expect(
            try sent(.subscribe(to: node, with: delivering))
                == [
                    "set",
                    "<subscribe node='princely_musings' jid='francisco@denmark.lit'/>"
                        + "<options>\(form("subscribe_options", deliver))</options>",
                ])
    }

    @Test("P3 A13 options are asked for with a get and set with a set, each in the subscriber's namespace")
    func subscriptionOptions() throws {
        let options = "<options node='princely_musings' jid='francisco@denmark.lit'"
        #expect(try sent(.subscriptionOptions(of: node)) == ["get", "\(options)/>"])
        #expect(
            try sent(.subscriptionOptions(of: node, as: JID("francisco@denmark.lit/b"), id: "123-abc"))
                == [
                    "get", "<options node='princely_musings' jid='francisco@denmark.lit/b' subid='123-abc'/>",
                ])
        #expect(
            try sent(.setSubscriptionOptions(of: node, to: delivering))
                == ["set", "\(options)>\(form("subscribe_options", deliver))</options>"])
        #expect(
            try sent(.setSubscriptionOptions(of: node, to: delivering, id: "1"))
                == ["set", "\(options) subid='1'>\(form("subscribe_options", deliver))</options>"])
        #expect(try sent(.defaultSubscriptionOptions()) == ["get", "<default/>"])
        #expect(
            try sent(.defaultSubscriptionOptions(of: node)) == ["get", "<default node='princely_musings'/>"])
    }

    // MARK: Rows 9, 10, 12: items

    @Test(
        "P2 A9 an item is published: none, one with and one without an id, one with options behind it"
    )
    func publish() throws {
        let entry = "<entry xmlns='http://www.w3.org/2005/Atom'>Soliloquy</entry>"
        #expect(try sent(.publish(nil, on: node)) == ["set", "<publish node='princely_musings'/>"])
        #expect(
            try sent(.publish(PubSubItem(payload: Self.entry), on: node))
                == ["set", "<publish node='princely_musings'><item>\(entry)</item></publish>"])
        let one = "<publish node='princely_musings'><item id='bnd81g37d61f49fgn581'>\(entry)</item></publish>"
        let item = PubSubItem(id: "bnd81g37d61f49fgn581", payload: Self.entry)
        #expect(try sent(.publish(item, on: node)) == ["set", one])
        let presence = "<field var='pubsub#access_model'><value>presence</value></field>"
        let options = "<publish-options>\(form("publish-options", presence))</publish-options>"
        #expect(
            try sent(.publish(item, on: node, requiring: [.accessModel(.presence)])) == [
                "set", one + options,
            ])
        #expect(
            try sent(.publish(item, on: node, requiring: [.accessModel(.presence)], configuring: true))
                == ["set", one + options])
    }

    @Test("P2 A10 one item is retracted, and subscribers are notified unless that is not wanted")
    func retract() throws {
        #expect(
            try sent(.retract("ae89", from: node))
                == ["set", "<retract node='princely_musings' notify='true'><item id='ae89'/></retract>"])
        #expect(
            try sent(.retract("ae89", from: node, notifying: false))
                == ["set", "<retract node='princely_musings'><item id='ae89'/></retract>"])
    }

    @Test(
        "P3 A12 items are asked for: all, the newest, one by id, several by id, those of one subscription",
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
        #expect(try sent(.items(of: node, selection)) == ["get", xml])
        #expect(
            try sent(.items(of: node, subscription: "s1"))
                == ["get", "<items node='princely_musings' subid='s1'/>"])
    }

    @Test("P3 a page is asked for behind the node: the first, one after an item, one before it, the last")
    func pages() throws {
        func page(_ position: ResultPage.Position) throws -> [String] {
            try sent(.page(of: node, at: position, limit: 20))
        }
        func expected(_ mark: String) -> [String] {
            [
                "get",
                "<items node='princely_musings'/><set xmlns='http://jabber.org/protocol/rsm'><max>20</max>\(mark)</set>",
            ]
        }
        #expect(try page(.start) == expected(""))
        #expect(try page(.after("a")) == expected("<after>a</after>"))
        #expect(try page(.before("z")) == expected("<before>z</before>"))
        #expect(try page(.end) == expected("<before/>"))
    }

    // MARK: Rows 14, 15: lists

    @Test("P1 P3 A14 one's own lists and those of a node's owner stand in different namespaces")
    func lists() throws {
        #expect(try sent(.ownSubscriptions()) == ["get", "<subscriptions/>"])
        #expect(
            try sent(.ownSubscriptions(to: node)) == ["get", "<subscriptions node='princely_musings'/>"])
        #expect(try sent(.ownAffiliations()) == ["get", "<affiliations/>"])
        #expect(
            try sent(.ownAffiliations(with: node)) == ["get", "<affiliations node='princely_musings'/>"])
        #expect(
            try sent(.subscriptions(to: node)) == ["get owner", "<subscriptions node='princely_musings'/>"])
        #expect(
            try sent(.affiliations(with: node)) == ["get owner", "<affiliations node='princely_musings'/>"])
    }

    @Test(
        "P1 A15 several subscriptions and affiliations are changed at once; affiliations are of bare addresses"
    )
    func changes() throws {
        let bard = try JID("bard@shakespeare.lit/globe")
        let polonius = try JID("polonius@denmark.lit")
        #expect(
            try sent(
                .setSubscriptions(
                    [.init(bard, .subscribed, id: "123-abc"), .init(polonius, .none)], to: node))
                == [
                    "set owner",
                    "<subscriptions node='princely_musings'>"
                        + "<subscription jid='bard@shakespeare.lit/globe' subscription='subscribed' subid='123-abc'/>"
                        + "<subscription jid='polonius@denmark.lit' subscription='none'/></subscriptions>",
                ])
        #expect(
            try sent(.setAffiliations([.init(bard, .publisher), .init(polonius, .none)], with: node))
                == [
                    "set owner",
                    "<affiliations node='princely_musings'>"
                        + "<affiliation jid='bard@shakespeare.lit' affiliation='publisher'/>"
                        + "<affiliation jid='polonius@denmark.lit' affiliation='none'/></affiliations>",
                ])
    }

    // MARK: Names and refusals

    @Test("P2 options are fields of the node's configuration, under the names of the XEP")
    func options() {
        let options: [PubSubOption] = [
            .accessModel(.open), .persistItems(true), .persistItems(false), .maximumItems(3),
            .maximumItems(nil), PubSubOption("pubsub#contact", ["a@b", "c@d"]),
        ]
        #expect(
            options.map { "\($0.name)=\($0.values.joined(separator: ","))" } == [
                "pubsub#access_model=open", "pubsub#persist_items=true", "pubsub#persist_items=false",
                "pubsub#max_items=3", "pubsub#max_items=max", "pubsub#contact=a@b,c@d",
            ])
        #expect(
            PubSubAccessModel.allCases.map(\.rawValue) == [
                "open", "presence", "roster", "authorize", "whitelist",
            ])
        #expect(
            PubSubOption(.init("pubsub#title", "Hi", type: "text-single")) == .init("pubsub#title", ["Hi"]))
        var nameless = DataForm.Field("", "for people")
        nameless.name = nil
        #expect(PubSubOption(nameless) == nil)
    }

    @Test("P1 P3 affiliations and states of subscriptions have the names of the XEP")
    func states() {
        let kinds: [PubSubAffiliation.Kind] = [.member, .none, .outcast, .owner, .publishOnly, .publisher]
        #expect(
            kinds.map(\.rawValue) == [
                "member", "none", "outcast", "owner", "publish-only", "publisher",
            ])
        let states: [PubSubSubscription.State] = [.none, .pending, .subscribed, .unconfigured]
        #expect(states.map(\.rawValue) == ["none", "pending", "subscribed", "unconfigured"])
    }

    @Test("P3 what would mean something else is refused, each with a sentence that says what to give")
    func refusals() throws {
        func refusal<Context>(_ operation: PubSubOperation<Context>) -> String {
            do {
                return "sent \(try sent(operation))"
            } catch {
                let error = error as? AccountError
                return error?.code == .invalidStanza ? error?.message ?? "" : "\(String(describing: error))"
            }
        }
        let noNode = "a node without a name was asked for; give the node's name"
        let (jid, phone) = (try JID("a@b"), try JID("a@b/phone"))
        #expect(refusal(.items(of: "")) == noNode)
        #expect(refusal(.page(of: "", limit: 1)) == noNode)
        #expect(refusal(.publish(nil, on: "")) == noNode)
        #expect(refusal(.retract("i", from: "")) == noNode)
        #expect(refusal(.create("")) == noNode)
        #expect(refusal(.configuration(of: "")) == noNode)
        #expect(refusal(.configure("", with: [.accessModel(.open)])) == noNode)
        #expect(refusal(.delete("")) == noNode)
        #expect(refusal(.purge("")) == noNode)
        #expect(refusal(.subscribe(to: "")) == noNode)
        #expect(refusal(.unsubscribe(from: "")) == noNode)
        #expect(refusal(.subscriptionOptions(of: "")) == noNode)
        #expect(refusal(.ownSubscriptions(to: "")) == noNode)
        #expect(refusal(.affiliations(with: "")) == noNode)
        #expect(refusal(.setAffiliations([.init(jid, .owner)], with: "")) == noNode)
        let noIDs = "items were asked for without their ids; give at least one id and none empty"
        #expect(refusal(.items(of: node, .ids([]))) == noIDs)
        #expect(refusal(.items(of: node, .ids(["a", ""]))) == noIDs)
        #expect(
            refusal(.items(of: node, .newest(0)))
                == "the newest 0 items cannot be asked for; ask for 1 or more")
        #expect(
            refusal(.page(of: node, limit: 0)) == "a page of 0 items cannot be asked for; ask for 1 or more")
        #expect(refusal(.retract("", from: node)) == "an item without an id cannot be retracted; give its id")
        #expect(
            refusal(.configure(node, with: []))
                == "a node was to be configured with nothing; give at least one option")
        #expect(
            refusal(.setSubscriptionOptions(of: node, to: []))
                == "a subscription was to be configured with nothing; give at least one option")
        #expect(
            refusal(.setSubscriptions([], to: node))
                == "no subscriptions were to be changed; give at least one")
        #expect(
            refusal(.setAffiliations([.init(jid, .owner), .init(phone, .none)], with: node))
                == "one of the affiliations was to be changed in two ways; name each address once")
        #expect(
            refusal(
                .setSubscriptions([.init(jid, .none, id: "1"), .init(jid, .none, id: "2")], to: node)
            ).hasPrefix("sent"))
    }
}
