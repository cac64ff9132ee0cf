import Handlers
import PubSub
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import TestServers

extension OperationsOnServers {
    /// Each operation, awaited, with servers that this project did not write.
    @Suite struct EveryOperationTests {
        /// Where the node is.
        enum Place: String, CaseIterable, Sendable, CustomTestStringConvertible {
            case service, own

            var testDescription: String { self == .service ? "a PubSub service" : "the account's own nodes" }
        }

        /// Asks one thing after the other and writes down how each ended.
        private final class Run {
            let account: Account
            let service: JID?
            private(set) var lines: [String] = []

            init(_ account: Account, _ service: JID?) { (self.account, self.service) = (account, service) }

            @discardableResult
            func ask<Context>(
                _ name: String, _ operation: PubSubOperation<Context>, timeout: Duration? = nil,
                _ describe: (Context.Value) -> any TextConvertible = { _ in "done" }
            ) async -> Context.Value? {
                do {
                    let value = try await account.request(.pubsub(operation, at: service), timeout: timeout)
                    lines.append("\(name): \(describe(value).foreignText)")
                    return value
                } catch let error as PubSubError {
                    let feature = error.unsupportedFeature.map { " \($0)" } ?? ""
                    let own = error.condition.map { " \($0)\(feature)" } ?? ""
                    lines.append("\(name): \(error.stanzaError.condition)\(own)")
                } catch let error as AccountError {
                    lines.append("\(name): \(error.code)")
                } catch {
                    lines.append("\(name): \(error)")
                }
                return nil
            }
        }

        private func item(_ id: String?) -> PubSubItem {
            PubSubItem(
                id: id, payload: Element("note", namespace: "urn:durable-handlers:test", text: id ?? ""))
        }

        private func ids(_ items: [PubSubItem]) -> String {
            items.map { $0.id ?? "-" }.joined(separator: " ")
        }

        private func nodes(_ run: Run, _ node: String) async {
            await run.ask("default configuration", .defaultConfiguration) { $0.formType ?? "-" }
            let instant = await run.ask("create instantly", .create()) { $0.isEmpty ? "nameless" : "named" }
            if let instant { await run.ask("delete it", .delete(instant)) }
            await run.ask("create", .create(node, with: [.accessModel(.whitelist), .persistItems(true)])) {
                $0 == node ? "done" : $0
            }
            await run.ask("create again", .create(node))
            await run.ask("configuration", .configuration(of: node)) { $0["pubsub#access_model"] ?? "-" }
            await run.ask("configure", .configure(node, with: [.accessModel(.open), .maximumItems(10)]))
            await run.ask("configuration now", .configuration(of: node)) {
                "\($0["pubsub#access_model"] ?? "-") \($0["pubsub#max_items"] ?? "-")"
            }
            await run.ask(
                "configure wrongly", .configure(node, with: [PubSubOption("pubsub#access_model", ["mad"])]))
        }

        private func items(_ run: Run, _ node: String) async {
            await run.ask("publish", .publish(item("a"), on: node)) { $0 ?? "-" }
            let chosen = await run.ask("publish without an id", .publish(item(nil), on: node)) {
                $0 == nil ? "no id" : "an id"
            }
            await run.ask(
                "publish as required", .publish(item("b"), on: node, requiring: [.accessModel(.open)])
            ) {
                $0 ?? "-"
            }
            await run.ask(
                "publish otherwise", .publish(item("c"), on: node, requiring: [.accessModel(.whitelist)]))
            await run.ask(
                "publish and configure",
                .publish(item("c"), on: node, requiring: [.accessModel(.whitelist)], configuring: true)
            ) { $0 ?? "-" }
            await run.ask("configuration then", .configuration(of: node)) { $0["pubsub#access_model"] ?? "-" }
            await run.ask("publish nothing", .publish(nil, on: node))
            if let chosen, let chosen { await run.ask("retract it", .retract(chosen, from: node)) }
            await run.ask("all items", .items(of: node)) {
                ids($0.sorted { $0.id ?? "" < $1.id ?? "" }.filter { $0.payload != nil })
            }
            await run.ask("the newest item", .items(of: node, .newest(1))) {
                ids($0.filter { $0.payload != nil })
            }
            await run.ask("items by id", .items(of: node, .ids(["a", "c"]))) { ids($0) }
            await run.ask("an item that is not there", .items(of: node, .ids(["z"]))) { ids($0) }
            await run.ask("a page", .page(of: node, limit: 2)) { page in
                page.page == nil ? "everything" : "\(page.items.count) of \(page.page?.count ?? -1)"
            }
            await run.ask("retract", .retract("a", from: node))
            await run.ask("retract again", .retract("a", from: node))
            await run.ask("items by id now", .items(of: node, .ids(["b", "c"]))) { ids($0) }
        }

        private func people(_ run: Run, _ node: String, other: JID) async {
            let own = run.account.configuration.jid
            let names = [own.bare: "own", other: "other"]
            await run.ask("set affiliations", .setAffiliations([.init(other, .member)], with: node))
            await run.ask("affiliations", .affiliations(with: node)) {
                $0.map { "\(names[$0.jid] ?? "?") \($0.kind)" }.sorted().joined(separator: ", ")
            }
            await run.ask("own affiliations", .ownAffiliations()) {
                $0.contains { $0.node == node && $0.kind == .owner } ? "owner" : "\($0)"
            }
            await run.ask("own affiliation", .ownAffiliations(with: node)) {
                $0.map { "\($0.node == node) \($0.kind)" }.joined()
            }
            await run.ask("set subscriptions", .setSubscriptions([.init(other, .subscribed)], to: node))
            let subscription = await run.ask("subscribe", .subscribe(to: node)) {
                "\(names[$0.jid] ?? "?") \($0.state)\($0.id == nil ? "" : " with id")"
            }
            await run.ask("subscribe another", .subscribe(to: node, as: other))
            await run.ask("subscriptions", .subscriptions(to: node)) {
                $0.map { "\(names[$0.jid.bare] ?? "?") \($0.state)" }.sorted().joined(separator: ", ")
            }
            await run.ask("own subscriptions", .ownSubscriptions()) {
                $0.filter { $0.node == node }.map { "\(names[$0.jid] ?? "?") \($0.state)" }.joined()
            }
            await run.ask("own subscription", .ownSubscriptions(to: node)) {
                $0.map { "\(names[$0.jid] ?? "?") \($0.state)" }.joined()
            }
            let id = subscription?.id
            await run.ask("default options", .defaultSubscriptionOptions(of: node)) { $0.formType ?? "-" }
            await run.ask("default options of all", .defaultSubscriptionOptions()) { $0.formType ?? "-" }
            await run.ask("options", .subscriptionOptions(of: node, id: id)) { $0.formType ?? "-" }
            let options = [PubSubOption("pubsub#include_body", ["0"])]
            let unknown = [PubSubOption("pubsub#deliver", ["1"])]
            // Short, for the one that is never answered.
            await run.ask(
                "set other options", .setSubscriptionOptions(of: node, to: unknown, id: id),
                timeout: .milliseconds(1500))
            await run.ask("set first options", .setSubscriptionOptions(of: node, to: options, id: id))
            await run.ask("unsubscribe", .unsubscribe(from: node, id: id))
            await run.ask("unsubscribe again", .unsubscribe(from: node, id: id))
            let second = await run.ask("subscribe with options", .subscribe(to: node, with: options)) {
                $0.state.rawValue
            }
            let other = [PubSubOption("pubsub#include_body", ["1"])]
            await run.ask("set options", .setSubscriptionOptions(of: node, to: other, id: second?.id))
            await run.ask("options now", .subscriptionOptions(of: node, id: second?.id)) {
                $0["pubsub#include_body"] ?? "-"
            }
        }

        private func end(_ run: Run, _ node: String) async {
            await run.ask("purge", .purge(node))
            await run.ask("items after it", .items(of: node)) { ids($0) }
            await run.ask("delete", .delete(node, redirect: "xmpp:other.example?;node=n"))
            await run.ask("items of nothing", .items(of: node)) { ids($0) }
            await run.ask("purge nothing", .purge(node))
            await run.ask("subscribe to nothing", .subscribe(to: node))
        }

        /// How each operation ends where nothing is lacking.
        private static let everywhere = [
            "default configuration: http://jabber.org/protocol/pubsub#node_config",
            "create instantly: named",
            "delete it: done",
            "create: done",
            "create again: conflict",
            "configuration: whitelist",
            "configure: done",
            "configuration now: open 10",
            "configure wrongly: not-acceptable",
            "publish: a",
            "publish without an id: an id",
            "publish as required: b",
            "publish otherwise: conflict precondition-not-met",
            "publish and configure: c",
            "configuration then: whitelist",
            "publish nothing: bad-request item-required",
            "retract it: done",
            "all items: a b c",
            "the newest item: c",
            "items by id: a c",
            "an item that is not there: ",
            "a page: 2 of 3",
            "retract: done",
            "retract again: item-not-found",
            "items by id now: b c",
            "set affiliations: done",
            "affiliations: other member, own owner",
            "own affiliations: owner",
            "own affiliation: true owner",
            "set subscriptions: done",
            "subscribe: own subscribed",
            "subscribe another: bad-request invalid-jid",
            "subscriptions: other subscribed, own subscribed",
            "own subscriptions: own subscribed",
            "own subscription: own subscribed",
            "default options: http://jabber.org/protocol/pubsub#subscribe_options",
            "default options of all: http://jabber.org/protocol/pubsub#subscribe_options",
            "options: http://jabber.org/protocol/pubsub#subscribe_options",
            "set other options: done",
            "set first options: done",
            "unsubscribe: done",
            "unsubscribe again: unexpected-request not-subscribed",
            "subscribe with options: subscribed",
            "set options: done",
            "options now: 1",
            "purge: done",
            "items after it: ",
            "delete: done",
            "items of nothing: item-not-found",
            "purge nothing: item-not-found",
            "subscribe to nothing: item-not-found",
        ]

        /// What a server lacks, or does otherwise, by the operation's name.
        private static func lacking(_ kind: ServerKind, _ place: Place) -> [String: String] {
            switch kind {
            case .prosody:
                return [
                    "publish nothing": "bad-request",
                    // It knows no pages and sends everything.
                    "a page": "everything",
                    "own affiliations": "service-unavailable",
                    "own affiliation": "service-unavailable",
                    "subscribe another": "done",
                    "default options": "service-unavailable",
                    "default options of all": "service-unavailable",
                    // It fails over a form without its own field for a subscription without options, and answers nothing.
                    "set other options": "timed-out",
                ]
            case .ejabberd:
                var lacking = [
                    "configure wrongly": "resource-constraint",
                    "subscribe": "own subscribed with id",
                    "default options": "feature-not-implemented",
                    "default options of all": "feature-not-implemented",
                ]
                for name in [
                    "options", "set other options", "set first options", "set options", "options now",
                ] {
                    lacking[name] = "feature-not-implemented unsupported subscription-options"
                }
                // It changes subscriptions to users' own nodes and does not list them.
                if place == .own {
                    lacking["subscriptions"] = "feature-not-implemented unsupported manage-subscriptions"
                }
                return lacking
            }
        }

        @Test(
            "P1 P2 P3 every operation is understood, or refused as it says",
            arguments: ServerKind.allCases, Place.allCases)
        func everything(_ kind: ServerKind, _ place: Place) async throws {
            try await withHome(kind) { home in
                let run = Run(try await home.connected(), place == .service ? home.service : nil)
                let node = "\(home.jid.local ?? "")-\(place)"
                await nodes(run, node)
                await items(run, node)
                let other = try JID("other@\(RealServers.domain)")
                await people(run, node, other: other)
                await end(run, node)
                let lacking = Self.lacking(kind, place)
                var expected = Self.everywhere
                for index in expected.indices {
                    let name = String(expected[index].prefix { $0 != ":" })
                    if let outcome = lacking[name] { expected[index] = "\(name): \(outcome)" }
                }
                #expect(run.lines == expected)
                #expect(Set(lacking.keys).isSubset(of: expected.map { String($0.prefix { $0 != ":" }) }))
            }
        }
    }
}
