import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore
import TestServers

@testable import PubSub
@testable import XMPPAccount

/// How far conversations were seen, as a node with values.
@Suite(.ownThread) struct DisplayedStateTests {
    private func state(_ chat: String?, _ xml: String) throws -> DisplayedState {
        try DisplayedState(Element(parsing: xml), itemID: chat.map { ForeignText($0) })
    }

    private func displayed(_ children: String) -> String {
        "<displayed xmlns='urn:xmpp:mds:displayed:0'>\(children)</displayed>"
    }

    private let id = "<stanza-id xmlns='urn:xmpp:sid:0' by='juliet@capulet.lit' id='0f710f2b'/>"

    @Test("X28 a displayed state is published and read as XEP-0490 has it")
    func published() throws {
        let juliet = try JID("juliet@capulet.lit")
        let seen = DisplayedState(of: try JID("romeo@montegue.lit"), upTo: "0f710f2b", in: juliet)
        let account = try EventAccount()
        let published = try account.step { step in
            try account.account.send(.pubsub(.publish(seen)), then: EventApp.Sent().durable, in: step)
            let xml = try step.first("SELECT xml FROM outbox") { (row) throws(HandlerError) in row.blob(0) }
            return try Element(
                parsing: String(decoding: xml ?? [], as: UTF8.self), defaultNamespace: Namespaces.client)
        }
        let expected = try Element(
            parsing: """
                <pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:xmpp:mds:displayed:0'>\
                <item id='romeo@montegue.lit'>\(displayed(id))</item></publish><publish-options>\
                <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' type='hidden'>\
                <value>http://jabber.org/protocol/pubsub#publish-options</value></field>\
                <field var='pubsub#persist_items'><value>true</value></field>\
                <field var='pubsub#max_items'><value>max</value></field>\
                <field var='pubsub#send_last_published_item'><value>never</value></field>\
                <field var='pubsub#access_model'><value>whitelist</value></field></x></publish-options></pubsub>
                """)
        #expect(published.firstElement == expected)
        #expect(try state("romeo@montegue.lit", displayed(id)) == seen)
        for chat in ["example@conference.shakespeare.lit", "room@conference.example/nick", "server.example"] {
            let state = DisplayedState(of: try JID(chat), upTo: "a<'&", in: juliet)
            #expect(
                try DisplayedState(Element(parsing: state.element.serialized()), itemID: state.itemID)
                    == state)
        }
    }

    @Test("X28 a displayed state names the id of the own archive, in a room that of the room")
    func archives() throws {
        let (juliet, romeo) = (try JID("juliet@capulet.lit/balcony"), try JID("romeo@montegue.lit"))
        let room = try JID("coven@chat.example")
        func message(_ type: Message.Kind, _ from: JID, by: [JID]) -> Message {
            Message(
                to: juliet, from: from, type: type, id: "own",
                children: by.map {
                    Element(
                        "stanza-id", namespace: Namespaces.sid,
                        attributes: ["by": $0.description, "id": "of \($0)"])
                })
        }
        let said = message(.chat, romeo, by: [juliet.bare, romeo])
        let seen = try #require(DisplayedState(of: romeo, upTo: said, of: juliet))
        #expect(seen.messageID == "of juliet@capulet.lit" && seen.archive == juliet.bare)
        let inRoom = try message(.groupchat, room.with(resource: "witch"), by: [juliet.bare, room])
        let seenThere = try #require(DisplayedState(of: room, upTo: inRoom, of: juliet))
        #expect(seenThere.messageID == "of coven@chat.example" && seenThere.archive == room)
        #expect(DisplayedState(of: romeo, upTo: message(.chat, romeo, by: [romeo]), of: juliet) == nil)
        #expect(
            DisplayedState(of: room, upTo: message(.groupchat, room, by: [juliet.bare]), of: juliet) == nil)
        let long = Element(
            "stanza-id", namespace: Namespaces.sid,
            attributes: ["by": "juliet@capulet.lit", "id": String(repeating: "i", count: 1025)])
        #expect(
            DisplayedState(
                of: romeo, upTo: Message(to: juliet, from: romeo, type: .chat, children: [long]), of: juliet)
                == nil)
    }

    @Test("X28 an item that is no displayed state says so")
    func unreadable() throws {
        for (chat, xml) in [
            ("romeo@montegue.lit", "<displayed xmlns='urn:xmpp:chat-markers:0' id='x'/>"),
            ("romeo@montegue.lit", displayed("")), ("romeo@montegue.lit", displayed(id + id)),
            ("romeo@montegue.lit", displayed("<stanza-id id='x'/>")), ("", displayed(id)),
            ("@", displayed(id)),
            (nil, displayed(id)),
        ] as [(String?, String)] {
            #expect(throws: PubSubPayloadError.self, "\(chat ?? "-") \(xml)") { try state(chat, xml) }
        }
        for attributes in ["by='juliet@capulet.lit'", "by='@' id='x'"] {
            #expect(throws: ElementValueError.self) {
                try state(
                    "romeo@montegue.lit", displayed("<stanza-id xmlns='urn:xmpp:sid:0' \(attributes)/>"))
            }
        }
        let bare = try state("romeo@montegue.lit", displayed("<stanza-id xmlns='urn:xmpp:sid:0' id='x'/>"))
        #expect(bare.archive == nil && bare.messageID == "x")
    }
}

extension OperationsOnServers {
    /// Displayed states that two clients of one account share, one of them slixmpp; see displayed_peer.py.
    @Suite struct DisplayedOnServersTests {
        @Test(
            "X28 another client of the account, slixmpp, sees displayed states, and its own are read",
            arguments: ServerKind.allCases)
        func shared(_ kind: ServerKind) async throws {
            try await withHome(kind) { home in
                let pubsub = try await home.connected().pubsub
                let peer = try home.scene.peer(
                    PackageResources.displayed_peer_py, as: home.jid, resource: "other")
                let (romeo, room) = (try JID("romeo@montegue.lit"), try JID("room@conference.example"))
                let ours = [
                    DisplayedState(of: romeo, upTo: "id1", in: home.jid),
                    DisplayedState(of: romeo, upTo: "id2", in: home.jid),
                    DisplayedState(of: room, upTo: "id3", in: room),
                ]
                // A server sends events once it has learned what the other client wants.
                let first = DisplayedState(of: romeo, upTo: "id0", in: home.jid)
                try await eventually("the other client's interest") {
                    try await pubsub.account.request(.pubsub(.publish(first, configuring: true)))
                    return try !peer.records("displayed").isEmpty
                }
                for state in ours {
                    try await pubsub.account.request(.pubsub(.publish(state, configuring: true)))
                }
                try await eventually("the events") {
                    try peer.records("displayed").last?.body == "id3"
                }
                let seen = try peer.records("displayed").filter { $0.body != "id0" }.map {
                    "\($0.id ?? "") \($0.body ?? "") \($0.to ?? "")"
                }
                #expect(seen == ours.map { "\($0.chat) \($0.messageID) \($0.archive?.description ?? "-")" })
                #expect(
                    try peer.ask("catch_up", as: [[String]].self) == [
                        [romeo.description, "id2", home.jid.description],
                        [room.description, "id3", room.description],
                    ])

                try peer.tell("flag", ["chat": "juliet@capulet.lit", "id": "id4"])
                try peer.tell("flag", ["chat": romeo.description, "id": "id5"])
                let fetched = try await pubsub.account.request(.pubsub(.values(DisplayedState.self))).map(
                    \.value)
                #expect(
                    Set(fetched.map { "\($0.chat) \($0.messageID)" }) == [
                        "juliet@capulet.lit id4", "\(romeo) id5", "\(room) id3",
                    ])
                #expect(fetched.count == 3)
                try await withHome(kind) { stranger in
                    let pubsub = try await stranger.connected().pubsub
                    await #expect(throws: PubSubError.self, "nobody else sees what the user reads") {
                        try await pubsub.account.request(.pubsub(.values(DisplayedState.self), at: home.jid))
                    }
                }
            }
        }
    }
}
