@testable import PubSub
import TestThreads
import Testing
@testable import XMPPAccount
import XMPPCore

/// What the answer to each operation means, beyond items and publications.
@Suite(.ownThread) struct PubSubOutcomeTests {
    private let node = "princely_musings"
    private let offline: PubSubAccount

    init() throws { offline = try PubSubAccount() }

    /// What an operation makes of an answer.
    private func outcome<Value>(
        _ operation: PubSubOperation<PubSubAnswer<Value>>, _ type: String, _ children: String
    ) async throws -> PubSubAnswer<Value>.Outcome {
        let iq = try IQ(
            element: Element(
                parsing: "<iq type='\(type)' id='a'>\(children)</iq>", defaultNamespace: Namespaces.client))
        let reply = PubSubReply(
            asked: nil, node: operation.node,
            reply: IQReply(account: offline.account, iq: iq, outcome: IQReply.Outcome(iq)))
        let context = operation.read(reply)
        // What waits for its handler is read again, and the same.
        let again = try PubSubAnswer<Value>(restoring: context.stored(), in: offline.account)
        #expect("\(again.outcome)" == "\(context.outcome)")
        #expect(again.node == context.node)
        #expect(again.service == context.service)
        return context.outcome
    }

    private func pubsub(_ xml: String, _ part: String = "") -> String {
        "<pubsub xmlns='http://jabber.org/protocol/pubsub\(part)'>\(xml)</pubsub>"
    }

    private func error(_ condition: String, _ own: String = "") -> String {
        "<error type='cancel'><\(condition) xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>\(own)</error>"
    }

    private func nonsense(_ text: String) -> PubSubError { .nonsense(text) }

    @Test("P1 A1 the name of an instant node is read from the answer, that of another one need not be there")
    func created() async throws {
        #expect(
            try await outcome(.create(), "result", pubsub("<create node='25e3d37dabbab9541f75'/>"))
                == .success("25e3d37dabbab9541f75"))
        #expect(
            try await outcome(.create(), "result", "")
                == .error(nonsense("the answer does not name the new node")))
        #expect(try await outcome(.create(node), "result", "") == .success(ForeignText(node)))
        // The service may have changed the name (section 8.1.1).
        #expect(
            try await outcome(.create(node), "result", pubsub("<create node='other'/>")) == .success("other"))
        guard case .error(let conflict) = try await outcome(.create(node), "error", error("conflict")) else {
            Issue.record("a node that exists was created")
            return
        }
        #expect(conflict.stanzaError.condition == .conflict)
    }

    @Test("P1 P3 A7 A13 forms are read from where they belong and from nowhere else")
    func forms() async throws {
        let form = """
            <x xmlns='jabber:x:data' type='form'><field var='FORM_TYPE' type='hidden'><value>t</value></field>\
            <field var='pubsub#access_model' type='list-single'><option><value>open</value></option>\
            <value>whitelist</value></field></x>
            """
        func accessModel(
            _ operation: PubSubOperation<PubSubAnswer<DataForm>>, _ xml: String
        ) async throws -> ForeignText? {
            guard case .success(let form) = try await outcome(operation, "result", xml) else { return nil }
            #expect(form.formType == "t")
            return form["pubsub#access_model"]
        }
        let configure = pubsub("<configure node='princely_musings'>\(form)</configure>", "#owner")
        #expect(try await accessModel(.configuration(of: node), configure) == "whitelist")
        #expect(
            try await accessModel(.defaultConfiguration, pubsub("<default>\(form)</default>", "#owner"))
                == "whitelist")
        let options = pubsub("<options node='princely_musings' jid='a@b'>\(form)</options>")
        #expect(try await accessModel(.subscriptionOptions(of: node), options) == "whitelist")
        let defaults = pubsub("<default node='princely_musings'>\(form)</default>")
        #expect(try await accessModel(.defaultSubscriptionOptions(of: node), defaults) == "whitelist")
        for wrong in [
            pubsub("<configure node='princely_musings'>\(form)</configure>"),
            pubsub("<configure node='other'>\(form)</configure>", "#owner"),
            pubsub("<configure node='princely_musings'/>", "#owner"), options, "",
        ] {
            #expect(
                try await outcome(.configuration(of: node), "result", wrong)
                    == .error(nonsense("the answer holds no form of <configure/>")))
        }
        #expect(try await accessModel(.defaultConfiguration, defaults) == nil)
    }

    @Test("P3 A4 A5 a subscription's state and id are read; an answer without one means what was asked for")
    func subscribed() async throws {
        let operation = PubSubOperation.subscribe(to: node)
        let own = try JID(PubSubAccount.jid)
        func subscription(_ attributes: String) -> String {
            pubsub(
                "<subscription node='princely_musings' \(attributes)><subscribe-options/></subscription>"
                    + "<options/>")
        }
        #expect(
            try await outcome(
                operation, "result",
                subscription("jid='francisco@denmark.lit' subid='ba49' subscription='subscribed'"))
                == .success(.init(try JID("francisco@denmark.lit"), .subscribed, id: "ba49", node: node)))
        for state in ["pending", "unconfigured", "of-tomorrow"] {
            let answer = try await outcome(operation, "result", subscription("subscription='\(state)'"))
            #expect(answer == .success(.init(own, .init(rawValue: ForeignText(state)), node: node)))
        }
        #expect(try await outcome(operation, "result", "") == .success(.init(own, .subscribed, node: node)))
        let other = pubsub("<subscription node='other' jid='a@b' subscription='subscribed'/>")
        #expect(
            try await outcome(operation, "result", other)
                == .error(nonsense("the answer speaks of another subscription")))
    }

    @Test("P3 A6 whatever a successful answer holds, the subscription is over")
    func unsubscribed() async throws {
        for xml in [
            "", pubsub("<subscription node='princely_musings' jid='a@b' subscription='none'/>"), pubsub(""),
        ] {
            guard case .success = try await outcome(.unsubscribe(from: node), "result", xml) else {
                Issue.record("\(xml) was not read as success")
                continue
            }
        }
        let own = "<not-subscribed xmlns='http://jabber.org/protocol/pubsub#errors'/>"
        guard
            case .error(let refusal) = try await outcome(
                .unsubscribe(from: node), "error", error("unexpected-request", own))
        else {
            Issue.record("an error was read otherwise")
            return
        }
        #expect(refusal.condition == .notSubscribed)
    }

    @Test(
        "P1 P3 A14 lists are read entry by entry, of the own account and of a node; what is no entry is left out"
    )
    func lists() async throws {
        let francisco = try JID("francisco@denmark.lit")
        let own = try JID(PubSubAccount.jid)
        let all = """
            <subscriptions><subscription node='node1' jid='francisco@denmark.lit' subscription='subscribed'/>\
            <subscription node='node6' jid='francisco@denmark.lit' subscription='pending' subid='123-abc'/>\
            <subscription node='node7' jid='@' subscription='subscribed'/><subscription node='node8'/>\
            <other/></subscriptions>
            """
        #expect(
            try await outcome(.ownSubscriptions(), "result", pubsub(all))
                == .success([
                    .init(francisco, .subscribed, node: "node1"),
                    .init(francisco, .pending, id: "123-abc", node: "node6"),
                ]))
        let ofNode =
            "<subscriptions node='princely_musings'><subscription jid='francisco@denmark.lit' subscription='subscribed'/></subscriptions>"
        #expect(
            try await outcome(.subscriptions(to: node), "result", pubsub(ofNode, "#owner"))
                == .success([.init(francisco, .subscribed, node: node)]))
        let affiliations =
            "<affiliations><affiliation node='node1' affiliation='owner'/><affiliation node='node2' affiliation='publish-only'/></affiliations>"
        #expect(
            try await outcome(.ownAffiliations(), "result", pubsub(affiliations))
                == .success([.init(own, .owner, node: "node1"), .init(own, .publishOnly, node: "node2")]))
        let entities = """
            <affiliations node='princely_musings'><affiliation jid='francisco@denmark.lit' affiliation='owner'/>\
            <affiliation affiliation='outcast'/></affiliations>
            """
        #expect(
            try await outcome(.affiliations(with: node), "result", pubsub(entities, "#owner"))
                == .success([.init(francisco, .owner, node: node)]))
        #expect(try await outcome(.ownSubscriptions(), "result", pubsub("<subscriptions/>")) == .success([]))
        // A list of the other kind, or of another node, is none.
        #expect(
            try await outcome(.subscriptions(to: node), "result", pubsub(ofNode))
                == .error(nonsense("the answer holds no list of subscriptions")))
        #expect(
            try await outcome(
                .affiliations(with: node), "result", pubsub("<affiliations node='other'/>", "#owner"))
                == .error(nonsense("the answer holds no list of affiliations")))
    }

    @Test("P7 A17 success, not found and an error are three outcomes of every operation")
    func outcomes() async throws {
        guard case .success = try await outcome(.purge(node), "result", "") else {
            Issue.record("success was read otherwise")
            return
        }
        guard case .notFound = try await outcome(.purge(node), "error", error("item-not-found")) else {
            Issue.record("not found was read otherwise")
            return
        }
        let own =
            "<unsupported xmlns='http://jabber.org/protocol/pubsub#errors' feature='purge-nodes'/>"
        guard
            case .error(let refusal) = try await outcome(
                .purge(node), "error", error("feature-not-implemented", own))
        else {
            Issue.record("an error was read otherwise")
            return
        }
        #expect(refusal.condition == .unsupported)
        #expect(refusal.unsupportedFeature == "purge-nodes")
    }

    // MARK: Pages

    private func page(
        _ position: ResultPage.Position = .start, items: [String], set: String
    ) async throws -> PubSubPage? {
        let items = items.map { "<item id='\($0)'/>" }.joined()
        let xml = pubsub("<items node='princely_musings'>\(items)</items>\(set)")
        guard
            case .success(let page) = try await outcome(
                .page(of: node, at: position, limit: 2), "result", xml)
        else { return nil }
        return page
    }

    private func set(_ first: String, _ last: String, count: Int? = nil, index: Int? = nil) -> String {
        let count = count.map { "<count>\($0)</count>" } ?? ""
        let index = index.map { " index='\($0)'" } ?? ""
        return
            "<set xmlns='http://jabber.org/protocol/rsm'><first\(index)>\(first)</first><last>\(last)</last>\(count)</set>"
    }

    private func next(_ page: PubSubPage?) throws -> String? {
        try page?.next?.payload(JID("a@b")).child("set", Namespaces.rsm)?.elements.last.map {
            "\($0.name) \($0.text)"
        }
    }

    @Test("P3 a page leads to the next one until the service says that it is the last one")
    func pages() async throws {
        let first = try await page(items: ["a", "b"], set: set("a", "b", count: 5, index: 0))
        #expect(first?.items.map(\.id) == ["a", "b"])
        #expect(first?.page == ResultPage(first: "a", last: "b", count: 5))
        #expect(try next(first) == "after b")
        #expect(
            try await next(page(.after("b"), items: ["c", "d"], set: set("c", "d", count: 5, index: 2)))
                == "after d")
        #expect(
            try await next(page(.after("d"), items: ["e"], set: set("e", "e", count: 5, index: 4))) == nil)
        // Without a place in the whole only an empty page is the end.
        #expect(try await next(page(.after("d"), items: ["e"], set: set("e", "e"))) == "after e")
        #expect(try await next(page(.after("e"), items: [], set: set("", "", count: 5))) == nil)
        // One that says how it ends had items that could not be read.
        let unread = try await page(.after("e"), items: [], set: set("f", "g"))
        #expect(try next(unread) == "after g")
        // From the end backward.
        #expect(
            try await next(page(.end, items: ["d", "e"], set: set("d", "e", count: 5, index: 3)))
                == "before d")
        #expect(
            try await next(page(.before("b"), items: ["a"], set: set("a", "a", count: 5, index: 0))) == nil)
    }

    @Test("P3 a service that knows no pages, or repeats one, does not lead in a circle")
    func noCircle() async throws {
        let whole = try await page(items: ["a", "b", "c"], set: "")
        #expect(whole?.items.count == 3)
        #expect(whole?.page == nil)
        #expect(try next(whole) == nil)
        #expect(try await next(page(.after("b"), items: ["a", "b"], set: set("a", "b"))) == nil)
        #expect(try await next(page(.before("a"), items: ["a", "b"], set: set("a", "b"))) == nil)
        let broken = "<set xmlns='http://jabber.org/protocol/rsm'><first index='-1'>a</first></set>"
        #expect(try await next(page(items: ["a"], set: broken)) == nil)
        #expect(
            try await next(page(items: ["a"], set: set("a", "a", count: 3, index: .max))) == nil)
    }

    @Test(
        "P3 a service that leads in a circle is not followed for ever, however long it is, from either end",
        arguments: [1, 2, 3, 7, 50], [false, true])
    func circle(length: Int, isBackward: Bool) async throws {
        var operation: PubSubOperation<PubSubAnswer<PubSubPage>>? = .page(
            of: node, at: isBackward ? .end : .start, limit: 2)
        var read = 0
        // Three pages lead into the circle.
        while let asked = operation, read < 200 {
            let place = read < 3 ? read : 3 + (read - 3) % length
            let (first, last) = ("\(place)a", "\(place)b")
            let items = [first, last].map { "<item id='\($0)'/>" }.joined()
            let xml = pubsub(
                "<items node='princely_musings'>\(items)</items>\(set(first, last, count: 9, index: nil))")
            guard case .success(let page) = try await outcome(asked, "result", xml) else {
                Issue.record("page \(read) was refused")
                return
            }
            operation = page.next
            read += 1
        }
        #expect(read >= 3 + length && read <= 3 * (3 + length) + 2)
    }

    @Test("P3 pages that are all different are read to the end, although an item moves from page to page")
    func moving() async throws {
        var operation: PubSubOperation<PubSubAnswer<PubSubPage>>? = .page(of: node, limit: 2)
        for number in 0..<300 {
            let asked = try #require(operation, "stopped at page \(number)")
            let xml = pubsub(
                "<items node='princely_musings'><item id='\(number)'/><item id='moves'/></items>\(set("\(number)", number % 2 == 0 ? "moves" : "stays"))"
            )
            guard case .success(let page) = try await outcome(asked, "result", xml) else {
                Issue.record("page \(number) was refused")
                return
            }
            operation = page.next
        }
        #expect(operation != nil)
    }

    @Test("P3 ten thousand items in one answer are read, in their order")
    func manyItems() async throws {
        let items = (0..<10_000).map { "<item id='\($0)'><e xmlns='urn:x'>\($0)</e></item>" }.joined()
        let xml = pubsub("<items node='princely_musings'>\(items)</items>")
        guard case .success(let page) = try await outcome(.page(of: node, limit: 50), "result", xml) else {
            Issue.record("the answer was not read")
            return
        }
        #expect(page.items.map(\.id) == (0..<10_000).map { "\($0)" })
        #expect(page.next == nil)
    }

    @Test("P3 a last item without a name is no place to go on from: it would lead to the start")
    func namelessPlace() async throws {
        #expect(try await next(page(items: ["a"], set: set("", ""))) == nil)
        #expect(try await next(page(.before("b"), items: ["a"], set: set("", ""))) == nil)
    }

    @Test("P3 a subscription whose state the answer does not say is one: the service has carried it out")
    func subscriptionWithoutState() async throws {
        let xml = pubsub(
            "<subscription node='princely_musings' jid='francisco@denmark.lit' subid='ba49'/>")
        #expect(
            try await outcome(.subscribe(to: node), "result", xml)
                == .success(
                    PubSubSubscription(
                        JID("francisco@denmark.lit"), .subscribed, id: "ba49", node: "princely_musings")))
    }

    @Test("P3 a page of another node, or none, is an error and not the end")
    func misplacedPage() async throws {
        for xml in ["", pubsub(""), pubsub("<items node='other'/>")] {
            #expect(
                try await outcome(.page(of: node, limit: 2), "result", xml)
                    == .error(nonsense("the answer does not speak of the items of 'princely_musings'")))
        }
    }
}
