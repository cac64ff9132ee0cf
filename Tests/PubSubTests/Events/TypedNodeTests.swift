import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore

@testable import PubSub
@testable import XMPPAccount

/// Nodes whose items are values.
@Suite(.ownThread) struct TypedNodeTests {
    private let juliet = "juliet@capulet.example"

    private func published(_ body: (PubSubService, borrowing Step) throws -> Void) throws -> Element {
        let account = try EventAccount()
        return try account.step { step in
            try body(account.pubsub, step)
            let xml = try step.first("SELECT xml FROM outbox") { (row) throws(HandlerError) in row.blob(0) }
            let iq = try Element(
                parsing: String(decoding: xml ?? [], as: UTF8.self), defaultNamespace: Namespaces.client)
            return try #require(iq.firstElement)
        }
    }

    private func expect(
        _ element: Element, _ xml: String, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        #expect(element == (try Element(parsing: xml)), sourceLocation: sourceLocation)
    }

    @Test("P5 a nick is published as XEP-0172 has it")
    func nick() throws {
        try expect(
            published {
                try $0.account.send(
                    .pubsub(.publish(UserNick("CallMeIshmael"))), then: EventApp.Sent().durable, in: $1)
            },
            """
            <pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='http://jabber.org/protocol/nick'>\
            <item id='current'><nick xmlns='http://jabber.org/protocol/nick'>CallMeIshmael</nick></item>\
            </publish></pubsub>
            """)
    }

    @Test("P5 avatar metadata is published and read as XEP-0084 has it; incomplete forms are left out")
    func avatar() throws {
        let id = "111f4b3c50d7b0df729d299bc6f8e9ef9066971f"
        let avatar = AvatarMetadata([
            .init(id: id, bytes: 12345, width: 64, height: 64),
            .init(
                id: "357a8123a30844a3aa99861b6349264ba67a5694", bytes: 23456, type: "image/gif",
                url: "http://avatars.example.org/happy.gif"),
        ])
        try expect(
            published {
                try $0.account.send(.pubsub(.publish(avatar)), then: EventApp.Sent().durable, in: $1)
            },
            """
            <pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:xmpp:avatar:metadata'>\
            <item id='\(id)'><metadata xmlns='urn:xmpp:avatar:metadata'>\
            <info bytes='12345' height='64' id='\(id)' type='image/png' width='64'/>\
            <info bytes='23456' id='357a8123a30844a3aa99861b6349264ba67a5694' type='image/gif' \
            url='http://avatars.example.org/happy.gif'/></metadata></item></publish></pubsub>
            """)
        #expect(try AvatarMetadata(avatar.element, itemID: ForeignText(id)) == avatar)
        let incomplete = try Element(
            parsing:
                "<metadata xmlns='urn:xmpp:avatar:metadata'><info id='x'/><info id='y' bytes='-' type='t'/></metadata>"
        )
        #expect(try AvatarMetadata(incomplete, itemID: nil) == AvatarMetadata([]))
        #expect(AvatarMetadata([]).itemID == "current")
    }

    @Test(
        "P5 a bookmark is published under its room with the options of XEP-0402, and keeps what others put there"
    )
    func bookmark() throws {
        let extensions = try Element(
            parsing:
                "<extensions xmlns='urn:xmpp:bookmarks:1'><state xmlns='http://myclient.example/bookmark/state' minimized='true'/></extensions>"
        )
        let room = try JID("theplay@conference.shakespeare.lit")
        let bookmark = RoomBookmark(
            room, name: "The Play's the Thing", joinsByItself: true, nick: "JC", others: [extensions])
        try expect(
            published {
                try $0.account.send(.pubsub(.publish(bookmark)), then: EventApp.Sent().durable, in: $1)
            },
            """
            <pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:xmpp:bookmarks:1'>\
            <item id='theplay@conference.shakespeare.lit'><conference xmlns='urn:xmpp:bookmarks:1' \
            autojoin='true' name='The Play&apos;s the Thing'><nick>JC</nick><extensions><state \
            xmlns='http://myclient.example/bookmark/state' minimized='true'/></extensions></conference></item>\
            </publish><publish-options><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' \
            type='hidden'><value>http://jabber.org/protocol/pubsub#publish-options</value></field>\
            <field var='pubsub#persist_items'><value>true</value></field><field var='pubsub#max_items'>\
            <value>max</value></field><field var='pubsub#send_last_published_item'><value>never</value></field>\
            <field var='pubsub#access_model'><value>whitelist</value></field></x></publish-options></pubsub>
            """)
        #expect(try RoomBookmark(bookmark.element, itemID: room.foreignText) == bookmark)
        let minimal = try Element(parsing: "<conference xmlns='urn:xmpp:bookmarks:1' autojoin='1'/>")
        #expect(
            try RoomBookmark(minimal, itemID: room.foreignText) == RoomBookmark(room, joinsByItself: true))
        for id: ForeignText? in [nil, "", "a@b@c", "room@conference.example/nick"] {
            #expect(throws: PubSubPayloadError.self) { try RoomBookmark(minimal, itemID: id) }
        }
    }

    @Test("P5 a program's own node needs no XML: a Codable value is JSON in the container of XEP-0335")
    func codable() throws {
        let mood = EventApp.Mood(text: "<merry> & \"bright\"", since: 7)
        let element = try published {
            try $0.account.send(.pubsub(.publish(mood)), then: EventApp.Sent().durable, in: $1)
        }
        try expect(
            element,
            """
            <pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:durable-handlers:test:mood'>\
            <item id='current'><json xmlns='urn:xmpp:json:0'>{"since":7,"text":"&lt;merry&gt; &amp; \\"bright\\""}</json>\
            </item></publish><publish-options><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE' \
            type='hidden'><value>http://jabber.org/protocol/pubsub#publish-options</value></field>\
            <field var='pubsub#access_model'><value>presence</value></field></x></publish-options></pubsub>
            """)
        #expect(try EventApp.Mood(mood.element, itemID: "current") == mood)
        for xml in ["<json xmlns='urn:x'>{}</json>", "<json xmlns='urn:xmpp:json:0'>[1]</json>"] {
            #expect(throws: PubSubPayloadError.self) {
                try EventApp.Mood(Element(parsing: xml), itemID: nil)
            }
        }
    }

    @Test("P5 a typed handler gets values, and what is none apart; the other changes as they are")
    func events() async throws {
        let account = try EventAccount()
        try account.step { step in
            try account.pubsub.listen(
                to: UserNick.self, as: "typed", EventApp.NickSeen(tag: "t").durable, in: step)
            try account.pubsub.listen(
                to: EventApp.Mood.self, as: "moods", EventApp.MoodSeen().durable, in: step)
        }
        let nick = "<nick xmlns='\(Namespaces.nick)'>Jule</nick>"
        try account.receive(
            event:
                "<items node='\(UserNick.node)'><item id='1'>\(nick)</item><item id='2'><evil xmlns='urn:x'/></item><item id='3'/></items>"
        )
        try account.receive(event: "<items node='\(UserNick.node)'><retract id='1'/></items>")
        try account.receive(event: "<purge node='\(UserNick.node)'/>")
        try account.receive(
            event:
                "<items node='\(EventApp.Mood.node)'><item id='current'><json xmlns='urn:xmpp:json:0'>{\"text\":\"gay\",\"since\":3}</json></item></items>"
        )
        #expect(
            try account.notes == [
                "t \(juliet): nicks [\"Jule\"], unreadable [\"2\", \"3\"]", "t \(juliet): retracted [\"1\"]",
                "t \(juliet): purged", "mood of \(juliet): gay 3",
            ])
        await account.close()
    }

    @Test(
        "P5 a typed fetch gives values, and tells what is none from an empty node; not found and errors stay apart"
    )
    func fetches() async throws {
        let account = try EventAccount()
        let answers = [
            "<iq type='result'><pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='\(UserNick.node)'><item id='1'><nick xmlns='\(Namespaces.nick)'>Jule</nick></item><item id='2'><x xmlns='urn:x'/></item></items></pubsub></iq>",
            "<iq type='error'><error type='cancel'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
            "<iq type='error'><error type='auth'><forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
        ]
        for answer in answers {
            let id = try account.step { step in
                try account.account.send(
                    .pubsub(.values(UserNick.self, .newest(2)), at: JID(juliet)),
                    then: EventApp.NickFetched(tag: "f").durable, in: step)
            }
            var stanza = try Element(parsing: answer, defaultNamespace: Namespaces.client)
            (stanza["id"], stanza["from"]) = (ForeignText(id), ForeignText(juliet))
            try account.receive(stanza)
        }
        #expect(
            try account.notes == [
                "f \(juliet): nicks [\"Jule\"], unreadable [\"2\"]", "f \(juliet): not found",
                "f \(juliet): error forbidden",
            ])
        await account.close()
    }

    @Test("P5 typed values are published and fetched awaited, too, and what holds none is no empty node")
    func awaited() async throws {
        let account = try EventAccount()
        let pubsub = account.pubsub
        let owner = try JID(juliet)
        func answer(_ type: String, _ content: String) async throws -> String {
            try await eventually("a request") {
                try account.number("SELECT count(*) FROM request") == 1
            }
            let sent = try account.step { step in
                try step.first("SELECT stanza_id, peer FROM request") { (row) throws(HandlerError) in
                    (row.text(0), row.optionalText(1))
                }
            }
            let from = sent?.1.map { " from='\($0)'" } ?? ""
            try account.receive(
                Element(
                    parsing: "<iq type='\(type)' id='\(sent?.0 ?? "")'\(from)>\(content)</iq>",
                    defaultNamespace: Namespaces.client))
            return sent?.0 ?? ""
        }
        func items(_ xml: String) -> String {
            "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='\(UserNick.node)'>\(xml)</items></pubsub>"
        }
        func fetched(_ xml: String) async throws -> [PubSubValue<UserNick>] {
            async let values = pubsub.account.request(.pubsub(.values(UserNick.self, .newest(2)), at: owner))
            _ = try await answer("result", items(xml))
            return try await values
        }
        async let id = pubsub.account.request(.pubsub(.publish(UserNick("Jule"))))
        _ = try await answer("result", "")
        #expect(try await id == "current")
        let nick = "<item id='1'><nick xmlns='\(Namespaces.nick)'>Jule</nick></item>"
        let other = "<item id='2'><x xmlns='urn:x'/></item>"
        #expect(try await fetched(nick + other).map(\.value) == [UserNick("Jule")])
        #expect(try await fetched("").isEmpty)
        for unreadable in [other, "<item id='3'/>"] {
            await #expect(throws: PubSubPayloadError.self) { try await fetched(unreadable) }
        }
        await account.close()
    }

    @Test("P5 a typed fetch finds an async handler, too")
    func fetchesLater() async throws {
        let account = try EventAccount()
        let id = try account.step { step in
            try account.account.send(
                .pubsub(.values(UserNick.self), at: JID(juliet)), then: EventApp.NickFetchedLater().durable,
                in: step)
        }
        try account.receive(
            Element(
                parsing:
                    "<iq type='result' id='\(id)' from='\(juliet)'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\(EventAccount.nick("Jule"))</pubsub></iq>",
                defaultNamespace: Namespaces.client))
        try account.account.runner.start()
        while try account.notes.isEmpty { _ = try await account.account.runner.drain(for: .seconds(20)) }
        #expect(try account.notes == ["fetched later [\"Jule\"]"])
        await account.close()
    }

    @Test("P5 a handler of another type is not called with what it cannot read")
    func wrongType() async throws {
        let account = try EventAccount()
        try account.step { step in
            // Bound by its name, as an older version of the program may have done.
            let wrong = try EventApp.NickFetched(tag: "w").durable
            try account.account.listeners.set(
                "pubsub \(UserNick.node)", key: " wrong", to: wrong, in: step)
        }
        try account.receive(event: EventAccount.nick("Jule"))
        #expect(try account.notes.isEmpty)
        #expect(try account.number("SELECT count(*) FROM handler WHERE state = 2 OR due IS NOT NULL") == 1)
        await account.close()
    }
}
