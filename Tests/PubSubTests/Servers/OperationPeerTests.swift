import PubSub
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import TestServers

extension OperationsOnServers {
    /// Nodes shared with an independent client: what one side does, the other one sees.
    @Suite struct OperationPeerTests {
        private let note = "urn:durable-handlers:test"

        private func item(_ id: String, _ text: String) -> PubSubItem {
            PubSubItem(id: id, payload: Element("note", namespace: note, text: text))
        }

        private func texts(_ items: [PubSubItem]) -> [String] {
            items.map { "\($0.id ?? "-")=\($0.payload?.text ?? "")" }.sorted()
        }

        @Test(
            "P1 P2 a subscriber sees what is published, retracted, purged and deleted here, in this order",
            arguments: ServerKind.allCases)
        func subscriber(_ kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let pubsub = try await home.connected().pubsub
                let peer = try home.peer()
                let (service, node) = (home.service, "\(home.jid.local ?? "")-shared")
                try await pubsub.account.request(
                    .pubsub(
                        .create(
                            node,
                            with: [
                                .accessModel(.open), .persistItems(true), .maximumItems(10),
                                PubSubOption("pubsub#notify_retract", ["1"]),
                                PubSubOption("pubsub#notify_delete", ["1"]),
                                PubSubOption("pubsub#send_last_published_item", ["never"]),
                            ]), at: service))
                #expect(try peer.ask("subscribe", service, node, as: String.self) == "subscribed")
                #expect(
                    try await pubsub.account.request(.pubsub(.subscriptions(to: node), at: service)).map(
                        \.jid) == [
                            peer.account
                        ])
                try await pubsub.account.request(.pubsub(.publish(item("1", "one"), on: node), at: service))
                try await pubsub.account.request(.pubsub(.publish(item("2", "two"), on: node), at: service))
                #expect(
                    try peer.ask("items", service, node, as: [String].self).sorted() == ["1=one", "2=two"])
                try await pubsub.account.request(.pubsub(.retract("1", from: node), at: service))
                #expect(try peer.ask("items", service, node, as: [String].self) == ["2=two"])
                try await pubsub.account.request(.pubsub(.purge(node), at: service))
                #expect(try peer.ask("items", service, node, as: [String].self) == [String]())
                try await pubsub.account.request(
                    .pubsub(.delete(node, redirect: "xmpp:pubsub.localhost?;node=other"), at: service))
                // Neither server passes the redirection on.
                try await eventually("the events") {
                    try peer.events == [
                        "\(node): item 1", "\(node): item 2", "\(node): retract 1", "\(node): purge",
                        "\(node): delete",
                    ]
                }
            }
        }

        @Test(
            "P1 P3 a publisher of another account is let in, publishes, is read and is shut out",
            arguments: ServerKind.allCases)
        func publisher(_ kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let pubsub = try await home.connected().pubsub
                let peer = try home.peer()
                let (own, node) = (home.jid, "\(home.jid.local ?? "")-letters")
                try await pubsub.account.request(
                    .pubsub(
                        .create(
                            node,
                            with: [
                                .accessModel(.open), .persistItems(true), .maximumItems(10),
                                PubSubOption("pubsub#publish_model", ["publishers"]),
                            ])))
                let words = ["id": "p", "text": "by the peer"]
                #expect(throws: (any Error).self) { try peer.tell("publish", own, node, words) }
                try await pubsub.account.request(
                    .pubsub(.setAffiliations([.init(peer.account, .publisher)], with: node)))
                try peer.tell("publish", own, node, words)
                #expect(
                    texts(try await pubsub.account.request(.pubsub(.items(of: node)))) == ["p=by the peer"])
                let affiliations = try await pubsub.account.request(.pubsub(.affiliations(with: node)))
                #expect(
                    Set(affiliations.map { "\($0.jid) \($0.kind)" }) == [
                        "\(own) owner", "\(peer.account) publisher",
                    ])
                try await pubsub.account.request(
                    .pubsub(.setAffiliations([.init(peer.account, .outcast)], with: node)))
                #expect(throws: (any Error).self) { try peer.tell("publish", own, node, words) }
                #expect(throws: (any Error).self) { try peer.ask("items", own, node, as: [String].self) }
            }
        }

        @Test(
            "P2 P3 a node of another user's: read, subscribed to, published on as far as its owner lets us",
            arguments: ServerKind.allCases)
        func guest(_ kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let pubsub = try await home.connected().pubsub
                let peer = try home.peer()
                let node = "\(home.jid.local ?? "")-guest"
                try peer.tell(
                    "create", peer.account, node,
                    [
                        "options": [
                            "pubsub#access_model": "whitelist", "pubsub#max_items": "10",
                            "pubsub#persist_items": "1",
                        ]
                    ])
                try peer.tell("publish", peer.account, node, ["id": "h", "text": "hello"])
                func refusal<Context>(_ operation: PubSubOperation<Context>) async throws -> PubSubError? {
                    await #expect(throws: PubSubError.self) {
                        try await pubsub.account.request(.pubsub(operation, at: peer.account))
                    }
                }
                // Not on the list: an error, which is not "there is nothing".
                let closed = try await refusal(.items(of: node))
                #expect(closed?.isNotFound == false)
                let closedNode = PubSubError.Condition(rawValue: "closed-node")
                #expect(closed?.condition == (kind == .ejabberd ? closedNode : nil))
                #expect(closed?.stanzaError.condition == (kind == .ejabberd ? .notAllowed : .forbidden))
                try peer.tell("allow", peer.account, node, ["jid": "\(home.jid)", "affiliation": "member"])
                #expect(
                    texts(try await pubsub.account.request(.pubsub(.items(of: node), at: peer.account))) == [
                        "h=hello"
                    ])
                #expect(
                    try await pubsub.account.request(.pubsub(.subscribe(to: node), at: peer.account)).state
                        == .subscribed)
                let refused = try await refusal(.publish(item("g", "guest"), on: node))
                #expect(refused?.stanzaError.condition == .forbidden)
                try peer.tell(
                    "allow", peer.account, node, ["jid": "\(home.jid)", "affiliation": "publisher"])
                #expect(
                    try await pubsub.account.request(
                        .pubsub(.publish(item("g", "guest"), on: node), at: peer.account)) == "g")
                #expect(
                    try peer.ask("items", peer.account, node, as: [String].self).sorted() == [
                        "g=guest", "h=hello",
                    ])
                #expect(
                    try await refusal(.configure(node, with: [.accessModel(.open)]))?.stanzaError.condition
                        == .forbidden)
                #expect(try await refusal(.delete(node))?.stanzaError.condition == .forbidden)
            }
        }

        @Test(
            "P6 a node that another client of the account made otherwise is configured, and published on",
            arguments: ServerKind.allCases)
        func configured(_ kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let account = try await home.connected()
                let peer = try home.peer()
                let node = "urn:durable-handlers:test:configured"
                try await account.send(
                    .pubsub(
                        .publish(item("current", "old"), on: node, requiring: [.accessModel(.whitelist)])),
                    then: Notes.Published(tag: "p").durable)
                let options: [PubSubOption] = [.accessModel(.open), .persistItems(true)]
                try await account.send(
                    .pubsub(
                        .publish(item("current", "new"), on: node, requiring: options, configuring: true)),
                    then: Notes.Published(tag: "p").durable)
                try await eventually("both publications") { try home.notes.count == 2 }
                let note = "p main \(home.jid) \(node): published current"
                #expect(try home.notes == [note, note])
                #expect(try peer.ask("items", home.jid, node, as: [String].self) == ["current=new"])
            }
        }
    }
}
