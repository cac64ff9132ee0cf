import TestThreads
import Testing

@testable import XMPPCore

/// Corrections, retractions, reactions and replies: the examples of their specifications, and who may send them.
@Suite(.ownThread) struct MessageValueTests {
    private func message(_ xml: String) throws -> Message {
        try Message(element: Element(parsing: xml, defaultNamespace: Namespaces.client))
    }

    /// What is read back of a message that was written with these elements.
    private func sent(_ children: [Element], type: Message.Kind = .chat) throws -> Message {
        let message = Message(to: try JID("juliet@capulet.net"), type: type, id: "new", children: children)
        return try self.message(message.element.serialized())
    }

    // MARK: Corrections

    private let wrong = """
        <message from='romeo@montague.net/orchard' to='juliet@capulet.net/balcony' id='bad1' type='chat'>\
        <body>But soft, what light through yonder airlock breaks?</body></message>
        """

    private func correction(
        _ attributes: String, _ child: String = "<replace id='bad1' xmlns='urn:xmpp:message-correct:0'/>"
    )
        throws -> Message
    {
        try message("<message \(attributes) id='good1'><body>window</body>\(child)</message>")
    }

    @Test("X28 a correction is read and written as XEP-0308 has it")
    func corrections() throws {
        let original = try message(wrong)
        let correction = try correction("from='romeo@montague.net/home' type='chat'")
        #expect(correction.correction?.id == "bad1" && correction.corrects(original))
        let written = try #require(MessageCorrection(of: original))
        try expect(written.element, "<replace id='bad1' xmlns='urn:xmpp:message-correct:0'/>")
        #expect(try sent([written.element]).correction == written)
        #expect(MessageCorrection(of: correction) == written, "a second correction names the first message")
        #expect(MessageCorrection(of: Message(to: nil)) == nil)
    }

    @Test(
        "X28 only the same author corrects: the bare address, in a room the nickname, and never the other kind"
    )
    func correctors() throws {
        let original = try message(wrong)
        for sender in ["juliet@capulet.net/balcony", "montague.net", "mallory@montague.net/orchard"] {
            #expect(try !correction("from='\(sender)' type='chat'").corrects(original), "\(sender)")
        }
        #expect(try !correction("type='chat'").corrects(original))
        #expect(try !correction("from='romeo@montague.net/orchard' type='groupchat'").corrects(original))
        #expect(try !correction("from='romeo@montague.net/orchard' type='error'").corrects(original))
        let other = "<replace id='bad2' xmlns='urn:xmpp:message-correct:0'/>"
        #expect(try !correction("from='romeo@montague.net/orchard' type='chat'", other).corrects(original))

        let said = try message("<message from='room@muc.example/romeo' type='groupchat' id='bad1'/>")
        #expect(try correction("from='room@muc.example/romeo' type='groupchat'").corrects(said))
        #expect(try !correction("from='room@muc.example/juliet' type='groupchat'").corrects(said))
        #expect(try !correction("from='room@muc.example' type='groupchat'").corrects(said))
        #expect(try !correction("from='room@muc.example/romeo' type='chat'").corrects(said))
    }

    @Test("X28 private messages of a room are of their nicknames, whether they say so or the program does")
    func privateMessages() throws {
        let mark = "<x xmlns='http://jabber.org/protocol/muc#user'/>"
        let replace = "<replace id='bad1' xmlns='urn:xmpp:message-correct:0'/>"
        let whispered = try message(
            "<message from='room@muc.example/romeo' type='chat' id='bad1'>\(mark)</message>")
        let plain = try message("<message from='room@muc.example/romeo' type='chat' id='bad1'/>")
        let forged = "from='room@muc.example/juliet' type='chat'"
        #expect(try !correction(forged, replace + mark).corrects(whispered))
        #expect(try !correction(forged).corrects(whispered), "without the mark neither")
        #expect(try !correction(forged).corrects(plain, amongOccupants: true))
        let honest = "from='room@muc.example/romeo' type='chat'"
        #expect(try correction(honest, replace + mark).corrects(whispered))
        #expect(try correction(honest).corrects(plain, amongOccupants: true))
        let said = try message("<message from='room@muc.example/romeo' type='groupchat' id='bad1'/>")
        #expect(try !correction(honest, replace + mark).corrects(said), "what was said to all is not")
    }

    @Test("X28 an occupant id tells two occupants with one nickname apart")
    func occupantIDs() throws {
        func said(_ ids: [String], _ more: String = "") throws -> Message {
            let marks = ids.map { "<occupant-id xmlns='urn:xmpp:occupant-id:0' id='\($0)'/>" }.joined()
            return try message(
                "<message from='room@muc.example/romeo' type='groupchat' id='bad1'>\(marks)\(more)</message>")
        }
        let replace = "<replace id='bad1' xmlns='urn:xmpp:message-correct:0'/>"
        let original = try said(["a"])
        #expect(try said(["a"], replace).corrects(original) && !said(["b"], replace).corrects(original))
        #expect(try !said([], replace).corrects(original) && !said(["a", "b"], replace).corrects(original))
        #expect(
            try said(["a"]).author() == MessageAuthor(jid: JID("room@muc.example/romeo"), occupantID: "a"))
        #expect(try message(wrong).author()?.jid == JID("romeo@montague.net"))
        #expect(try message("<message/>").author() == nil)
        #expect(try message("<message from='romeo@montague.net' type='error'/>").author() == nil)
    }

    // MARK: Retractions

    @Test("X28 a retraction is read and written, and its tombstone read, as XEP-0424 has them")
    func retractions() throws {
        let retracting = try message(
            """
            <message type='chat' to='lord@capulet.example' from='romeo@montague.example/a' id='retract-message-1'>
            <retract id="wrong-recipient-1" xmlns='urn:xmpp:message-retract:1'/>
            <fallback xmlns="urn:xmpp:fallback:0" for='urn:xmpp:message-retract:1'/>
            <body>/me retracted a previous message, but it's unsupported by your client.</body>
            <store xmlns="urn:xmpp:hints"/></message>
            """)
        let original = try message(
            "<message type='chat' from='romeo@montague.example/b' id='wrong-recipient-1'><body>x</body></message>"
        )
        let retraction = try #require(MessageRetraction(of: original))
        #expect(retracting.retraction == retraction && retracting.retracts(original))
        #expect(
            retracting.hints == [.store] && retracting.body(understanding: [Namespaces.retraction]) == nil)
        try expect(retraction.element, "<retract id='wrong-recipient-1' xmlns='urn:xmpp:message-retract:1'/>")
        #expect(try sent([retraction.element]).retraction == retraction)

        let tombstone = try message(
            """
            <message type='groupchat' from='romeo@montague.example' id='wrong-recipient-1'>
            <retracted stamp='2019-09-20T23:09:32Z' xmlns='urn:xmpp:message-retract:1' id='retract-message-1'/></message>
            """)
        #expect(tombstone.tombstone?.retractionID == "retract-message-1")
        #expect(tombstone.tombstone?.time == Timestamp(milliseconds: 1_569_020_972_000))
        #expect(tombstone.retraction == nil && retracting.tombstone == nil)
        let timeless = try message(
            "<message><retracted xmlns='urn:xmpp:message-retract:1' id='a'/></message>")
        #expect(timeless.tombstone?.retractionID == "a" && timeless.tombstone?.time == nil)
    }

    @Test("X28 a retraction names the id of the room, and only the same author retracts")
    func retractors() throws {
        func said(_ nick: String, _ child: String, room: String = "room@muc.example") throws -> Message {
            try message("<message type='groupchat' from='\(room)/\(nick)' id='own'>\(child)</message>")
        }
        let id = "<stanza-id xmlns='urn:xmpp:sid:0' by='room@muc.example' id='room1'/>"
        let origin = "<origin-id xmlns='urn:xmpp:sid:0' id='origin1'/>"
        let original = try said("romeo", id + origin)
        func retract(_ id: String) -> String { "<retract id='\(id)' xmlns='urn:xmpp:message-retract:1'/>" }
        #expect(MessageRetraction(of: original)?.id == "room1")
        #expect(try said("romeo", retract("room1")).retracts(original))
        for (nick, id) in [("juliet", "room1"), ("romeo", "origin1"), ("romeo", "own"), ("romeo", "")] {
            #expect(try !said(nick, retract(id)).retracts(original), "\(nick) \(id)")
        }
        #expect(try !said("romeo", retract("room1"), room: "other@muc.example").retracts(original))
        let unnamed = try said("romeo", origin)
        #expect(MessageRetraction(of: unnamed)?.id == "origin1")
        #expect(try said("romeo", retract("origin1")).retracts(unnamed))
        let forged = try said("romeo", "<stanza-id xmlns='urn:xmpp:sid:0' by='evil@muc.example' id='room1'/>")
        #expect(MessageRetraction(of: forged) == nil)
        #expect(try !said("romeo", retract("room1")).retracts(forged))
    }

    // MARK: Reactions

    private let greeting = """
        <message from='romeo@capulet.net/orchard' to='juliet@capulet.net/balcony' id='744f6e18' type='chat'>\
        <body>Hello, world!</body></message>
        """

    private func reacting(_ sender: String, _ children: String, type: String = "chat") throws -> Message {
        try message(
            """
            <message from='\(sender)' id='7fdd29fa' type='\(type)'>\
            <reactions id='744f6e18' xmlns='urn:xmpp:reactions:0'>\(children)</reactions>\
            <store xmlns="urn:xmpp:hints"/></message>
            """)
    }

    @Test("X28 reactions are read and written as XEP-0444 has them, each once")
    func reactions() throws {
        let original = try message(greeting)
        let one = try reacting("juliet@capulet.net/x", "<reaction>👋</reaction>")
        let two = try reacting("juliet@capulet.net/x", "<reaction>👋</reaction><reaction>🐢</reaction>")
        let none = try reacting("juliet@capulet.net/x", "")
        #expect(one.reactions?.reactions == ["👋"] && two.reactions?.reactions == ["👋", "🐢"])
        #expect(none.reactions?.reactions == [] && none.reactions?.id == "744f6e18")
        for values in [[], ["👋"], ["👋", "🐢", "👨‍👩‍👧‍👦", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "👩🏿‍❤️‍💋‍👩🏻"]] {
            let written = try #require(MessageReactions(values, to: original))
            #expect(written.reactions == values && written.id == "744f6e18")
            #expect(try sent([written.element]).reactions == written)
        }
        try expect(
            MessageReactions(["🐢", "🐢"], to: "1").element,
            "<reactions id='1' xmlns='urn:xmpp:reactions:0'><reaction>🐢</reaction></reactions>")
        let odd = try reacting(
            "juliet@capulet.net/x",
            """
            <reaction/><reaction>👋</reaction><reaction xmlns='urn:x'>🐢</reaction><reaction>👋</reaction>\
            <reaction>\(String(repeating: "👋", count: 33))</reaction><reaction>e\u{301}</reaction>\
            <reaction>\u{E9}</reaction>
            """)
        #expect(odd.reactions?.reactions == ["👋", "e\u{301}", "\u{E9}"], "compared as bytes")
    }

    @Test(
        "X28 reactions are of the two parties, in a room of any occupant, and about a message that can be named"
    )
    func reactors() throws {
        let original = try message(greeting)
        let wave = "<reaction>👋</reaction>"
        for sender in ["juliet@capulet.net/x", "romeo@capulet.net", "romeo@capulet.net/orchard"] {
            #expect(try reacting(sender, wave).reacts(to: original), "\(sender)")
        }
        for sender in ["mallory@capulet.net/orchard", "capulet.net"] {
            #expect(try !reacting(sender, wave).reacts(to: original), "\(sender)")
        }
        #expect(try !reacting("romeo@capulet.net/orchard", wave, type: "groupchat").reacts(to: original))
        #expect(try !reacting("juliet@capulet.net/x", wave, type: "error").reacts(to: original))

        let id = "<stanza-id xmlns='urn:xmpp:sid:0' by='room@muc.example' id='744f6e18'/>"
        let said = try message(
            "<message from='room@muc.example/romeo' id='own' type='groupchat'>\(id)</message>")
        #expect(MessageReactions(["👋"], to: said)?.id == "744f6e18")
        #expect(try reacting("room@muc.example/juliet", wave, type: "groupchat").reacts(to: said))
        #expect(try !reacting("other@muc.example/juliet", wave, type: "groupchat").reacts(to: said))
        let unnamed = try message("<message from='room@muc.example/romeo' id='744f6e18' type='groupchat'/>")
        #expect(MessageReactions(["👋"], to: unnamed) == nil && MessageReply(to: unnamed) == nil)
        #expect(try !reacting("room@muc.example/juliet", wave, type: "groupchat").reacts(to: unnamed))

        let whispered = try message(
            "<message from='room@muc.example/romeo' to='me@capulet.net/x' id='744f6e18' type='chat'/>")
        #expect(try !reacting("room@muc.example/juliet", wave).reacts(to: whispered, amongOccupants: true))
        #expect(try reacting("room@muc.example/romeo", wave).reacts(to: whispered, amongOccupants: true))
    }

    @Test("X28 a message is named by its origin id, or else its id")
    func referenceIDs() throws {
        #expect(try message(greeting).referenceID == "744f6e18")
        let origin = "<origin-id xmlns='urn:xmpp:sid:0' id='o1'/>"
        #expect(try message("<message id='1' type='chat'>\(origin)</message>").referenceID == "o1")
        #expect(try message("<message id='' type='chat'/>").referenceID == nil)
        #expect(try message("<message type='chat'/>").referenceID == nil)
        #expect(MessageCorrection(of: try message("<message id='1'>\(origin)</message>"))?.id == "1")
    }

    @Test(
        "X28 an id of more than 1024 bytes names no message: what repeats it may be more than the server takes"
    )
    func longIDs() throws {
        for (length, isNamed) in [(1024, true), (1025, false)] {
            let id = String(repeating: "i", count: length)
            let stanzaID = "<stanza-id xmlns='urn:xmpp:sid:0' by='room@muc.example' id='\(id)'/>"
            let inRoom =
                "<message type='groupchat' from='room@muc.example/a' id='short'>\(stanzaID)</message>"
            for text in ["<message id='\(id)' type='chat'/>", inRoom] {
                let original = try message(text)
                #expect((original.referenceID != nil) == isNamed)
                #expect((MessageReply(to: original) != nil) == isNamed)
                #expect((MessageReactions(["👋"], to: original) != nil) == isNamed)
                #expect((MessageRetraction(of: original) != nil) == isNamed)
                #expect((DisplayMarker(upTo: original) != nil) == isNamed)
            }
        }
    }

    // MARK: Replies

    @Test("X28 a reply is read and written as XEP-0461 has it")
    func replies() throws {
        let original = try message(
            """
            <message to='max@example.com' from='anna@example.com/tablet' id='message-id1' type='chat'>\
            <body>We should bake a cake</body></message>
            """)
        let answer = try message(
            """
            <message to='anna@example.com' id='message-id2' type='chat'><body>Great idea!</body>\
            <reply to='anna@example.com/tablet' id='message-id1' xmlns='urn:xmpp:reply:0' /></message>
            """)
        let reply = try #require(MessageReply(to: original))
        #expect(answer.reply == reply)
        try expect(
            reply.element, "<reply to='anna@example.com/tablet' id='message-id1' xmlns='urn:xmpp:reply:0'/>")
        #expect(try sent([reply.element]).reply == reply)
        let anonymous = MessageReply(to: "1")
        #expect(try sent([anonymous.element]).reply == anonymous && anonymous.author == nil)
        #expect(
            try sent([MessageReply(to: "1", of: JID("anna@example.com")).element]).reply?.author?.isBare
                == true)
    }

    @Test("X28 a reply quotes for clients that do not know replies, and the others cut the quote off")
    func quoting() throws {
        let reply = MessageReply(to: "message-id1", of: try JID("anna@example.com/laptop"))
        let (body, children) = reply.quoting("We should bake a cake", by: "Anna", before: "Great idea!")
        #expect(body == "> Anna:\n> We should bake a cake\nGreat idea!")
        try expect(
            children[1],
            "<fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'><body start='0' end='32'/></fallback>"
        )
        for (quoted, name, answer) in [
            ("We should bake a cake", "Anna", "Great idea!"), ("a\nb\n\nc", nil, "> not a quote"),
            ("", nil, "👍"),
            ("🧛🏾 👨‍👨‍👦‍👦 🇺🇳 e\u{301}", "Ö\nÄ", "\u{301}\u{301}👨‍👨‍👦‍👦"),
        ] as [(String, String?, String)] {
            let (body, children) = reply.quoting(quoted, by: name, before: answer)
            let message = Message(to: nil, body: body, children: children)
            let read = try self.message(message.element.serialized())
            #expect(read.body == body && read.body(understanding: [Namespaces.replies]) == answer.foreignText)
            #expect(read.body(understanding: []) == body && read.reply == reply)
            let quote = ForeignText(decoding: body.utf8.dropLast(answer.utf8.count + 1))
            #expect(quote.utf8.split(separator: 0x0A).allSatisfy { $0.starts(with: "> ".utf8) }, "each line")
        }
    }

    private func expect(
        _ element: Element, _ xml: String, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        #expect(element == (try Element(parsing: xml)), sourceLocation: sourceLocation)
    }
}
