import AccountTestSupport
import Handlers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import TestServers

extension RealServerTests {
    /// What messages carry beside their text, through real servers, with the plugins of slixmpp; see values_peer.py.
    @Suite struct ValuesOnServersTests {
        private func account(_ home: RealHome) async throws -> Account {
            let account = try home.account {
                $0.modules = [DiscoModule(features: [Namespaces.correction]), ChatModule()]
            }
            try await account.listen(as: "test", TestApp.Whole().durable)
            try await account.connect()
            try await account.caughtUp()
            return account
        }

        private func peer(_ home: RealHome) throws -> SlixmppPeer {
            try home.scene.peer(PackageResources.values_peer_py, resource: "values")
        }

        /// The messages that came, in order.
        private func messages(_ home: RealHome, _ count: Int) async throws -> [Message] {
            try await eventually("\(count) messages") { try home.store.notes("xml").count >= count }
            let texts = try home.store.texts("SELECT value FROM note WHERE what = 'xml' ORDER BY row")
            return try texts.map { try Message(element: Element(parsing: $0)) }
        }

        @Test("X28 what slixmpp writes beside a text is read", arguments: ServerKind.allCases)
        func reading(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                _ = try await account(home)
                let peer = try peer(home)
                defer { peer.close() }
                let to = home.jid.description
                let mine = Message(
                    to: try peer.jid, from: home.jid, id: "m1", body: "We should\nbake a cake 🍰")
                try peer.tell("send", ["to": to, "id": "p1", "body": "airlock", "markable": true])
                try peer.tell("correct", ["to": to, "id": "p1", "body": "window"])
                try peer.tell("retract", ["to": to, "id": "p1"])
                try peer.tell("react", ["to": to, "id": "m1", "reactions": ["👋", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"]])
                try peer.tell("react", ["to": to, "id": "m1", "reactions": [String]()])
                try peer.tell(
                    "reply",
                    [
                        "to": to, "id": "m1", "author": to, "quoted": "We should\nbake a cake 🍰",
                        "name": "Änna",
                        "body": "Great idea! 👨‍👩‍👧‍👦",
                    ])
                try peer.tell("mark", ["to": to, "id": "m1"])
                try peer.tell("hint", ["to": to, "hints": ["no-permanent-store", "store"]])
                try peer.tell(
                    "hide", ["to": to, "topics": ["en": "Love story end", "ca": "Fi de la història"]])

                let came = try await messages(home, 9)
                #expect(came[0].displayMarker == .markable && came[0].correction == nil)
                #expect(
                    came[1].correction?.id == "p1" && came[1].corrects(came[0]) && !came[1].retracts(came[0]))
                #expect(
                    came[2].retraction?.id == "p1" && came[2].retracts(came[0]) && !came[2].corrects(came[0]))
                #expect(came[2].hints == [.store])
                #expect(Set(came[3].reactions?.reactions ?? []) == ["👋", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"] && came[3].reacts(to: mine))
                #expect(came[4].reactions?.reactions == [] && came[4].reacts(to: mine))
                #expect(came[4].author() == came[3].author())
                #expect(came[5].reply == MessageReply(to: "m1", of: home.jid))
                #expect(came[5].body == "> Änna:\n> We should\n> bake a cake 🍰\nGreat idea! 👨‍👩‍👧‍👦")
                #expect(came[5].body(understanding: [Namespaces.replies]) == "Great idea! 👨‍👩‍👧‍👦")
                #expect(came[6].displayMarker == .displayed("m1"))
                #expect(came[7].hints == [.noPermanentStore, .store])
                let topics = came[8].spoiler?.topics ?? []
                #expect(topics.contains(MessageSpoiler.Topic("Fi de la història", language: "ca")))
                #expect(topics.contains { $0.text == "Love story end" })
                #expect(came.count == 9)
            }
        }

        @Test("X28 what is written beside a text is what slixmpp reads", arguments: ServerKind.allCases)
        func writing(kind: ServerKind) async throws {
            try await withModulesHome(kind) { home in
                let account = try await account(home)
                let peer = try peer(home)
                defer { peer.close() }
                let jid = try peer.jid
                try peer.tell(
                    "send", ["to": home.jid.description, "id": "p1", "body": "We should\nbake a cake 🍰"])
                let question = try #require(try await messages(home, 1).first)
                let mine = Message(to: jid, id: "m1", body: "one", children: [DisplayMarker.markable.element])
                let quoted = try #require(MessageReply(to: question))
                    .quoting(question.body ?? "", by: "Änna", before: "Great idea! 👨‍👩‍👧‍👦")
                // Of several languages slixmpp's plugin keeps one.
                let spoiler = MessageSpoiler("Fi de la història")
                let values: [(String, any TextConvertible, [Element])] = [
                    ("m2", "two", [try #require(MessageCorrection(of: mine)).element]),
                    (
                        "m3", "gone",
                        [
                            try #require(MessageRetraction(of: mine)).element, ProcessingHint.store.element,
                            MessageFallback(for: Namespaces.retraction).element,
                        ]
                    ),
                    ("m4", "", [try #require(MessageReactions(["👋", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"], to: question)).element]),
                    ("m5", "", [try #require(MessageReactions([], to: question)).element]),
                    ("m6", quoted.body, quoted.children),
                    ("m7", "", [try #require(DisplayMarker(upTo: question)).element]),
                    ("m8", "hinted", ProcessingHint.allCases.map(\.element)),
                    ("m9", "hidden", spoiler.elements),
                ]
                try await account.send(mine)
                for (id, body, children) in values {
                    try await account.send(Message(to: jid, id: id, body: body, children: children))
                }
                try await eventually("nine messages") { try peer.records("value").count >= 9 }
                let seen = try peer.bodies("value")
                #expect(
                    seen == [
                        "{\"markable\": true}", "{\"replace\": \"m1\"}",
                        "{\"fallback\": \"\(Namespaces.retraction)\", \"hints\": [\"store\"], \"retract\": \"m1\"}",
                        "{\"reactions\": [\"p1\", \"🏴󠁧󠁢󠁥󠁮󠁧󠁿\", \"👋\"]}", "{\"reactions\": [\"p1\"]}",
                        "{\"reply\": [\"p1\", \"\(jid)\", \"> Änna:\\n> We should\\n> bake a cake 🍰\\n\", \"Great idea! 👨‍👩‍👧‍👦\"]}",
                        "{\"displayed\": \"p1\"}",
                        "{\"hints\": [\"no-permanent-store\", \"no-store\", \"no-copy\", \"store\"]}",
                        "{\"spoiler\": \"Fi de la història\"}",
                    ])
                let full = try #require(
                    try await account.perform { step in
                        try step.first("SELECT full_jid FROM session") { (row) throws(HandlerError) in
                            row.text(0)
                        }
                    })
                #expect(
                    try peer.ask("info", ["jid": full], as: [String].self).contains(Namespaces.correction))
            }
        }
    }
}
