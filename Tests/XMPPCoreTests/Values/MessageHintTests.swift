import TestThreads
import Testing

@testable import XMPPCore

/// Fallbacks, markers, hints and spoilers; and what all values make of hostile messages.
@Suite(.ownThread) struct MessageHintTests {
    private func message(_ xml: String) throws -> Message {
        try Message(element: Element(parsing: xml, defaultNamespace: Namespaces.client))
    }

    private func chat(_ children: String, type: String = "chat") throws -> Message {
        try message("<message from='a@b/c' type='\(type)' id='1'>\(children)</message>")
    }

    // MARK: Fallbacks

    private func rest(_ body: String, _ regions: String, feature: String = "urn:x") throws -> ForeignText? {
        try chat(
            "<body>\(body)</body><fallback xmlns='urn:xmpp:fallback:0' for='\(feature)'>\(regions)</fallback>"
        ).body(understanding: ["urn:x", "urn:y"])
    }

    @Test(
        "X28 regions count code points, and what is wrong hides nothing",
        arguments: [
            ("0123456789", "<body start='0' end='4'/>", "456789"),
            ("0123456789", "<body start='8' end='10'/><body start='2' end='3'/>", "0134567"),
            (
                "0123456789", "<body start='2' end='8'/><body start='0' end='4'/><body start='3' end='5'/>",
                "89"
            ),
            ("0123456789", "<body start='3' end='3'/>", "0123456789"),
            ("0123456789", "<body start=' 3 ' end='+4'/>", "012456789"),
            ("🧛🏾 👨‍👨‍👦‍👦 🇺🇳", "<body start='0' end='3'/>", "👨‍👨‍👦‍👦 🇺🇳"),
            ("🧛🏾 👨‍👨‍👦‍👦 🇺🇳", "<body start='10' end='13'/>", "🧛🏾 👨‍👨‍👦‍👦"),
            ("🧛🏾 👨‍👨‍👦‍👦 🇺🇳", "<body start='1' end='2'/>", "🧛 👨‍👨‍👦‍👦 🇺🇳"),
            ("e\u{301}x", "<body start='0' end='1'/>", "\u{301}x"),
            ("&amp;x", "<body start='0' end='1'/>", "x"),
            ("0123", "<subject start='0' end='2'/>", "0123"), ("0123", "<subject/>", "0123"),
            ("0123", "<body start='0' end='5'/>", "0123"),
            ("0123", "<body start='0' end='5'/><body start='0' end='1'/>", "123"),
            ("0123", "<body start='3' end='2'/>", "0123"), ("0123", "<body start='1'/>", "0123"),
            ("0123", "<body end='1'/>", "0123"), ("0123", "<body start='-1' end='1'/>", "0123"),
            ("0123", "<body start='a' end='1'/><body start='0' end='1'/>", "0123"),
            ("0123", "<body start='0' end='4294967296'/>", "0123"),
            ("0123", "<body start='0' end='18446744073709551616'/>", "0123"),
        ])
    func regions(body: String, regions: String, expected: String) throws {
        #expect(try rest(body, regions) == expected.foreignText)
        #expect(try rest(body, regions, feature: "urn:z") == (try chat("<body>\(body)</body>").body))
    }

    @Test(
        "X28 a fallback of everything leaves nothing, one of the subject leaves the body, one for nothing leaves all"
    )
    func wholes() throws {
        #expect(try rest("text", "") == nil && rest("text", "<body/>") == nil)
        #expect(try rest("text", "<body start='0' end='4'/>") == nil)
        #expect(try rest("text", "<x xmlns='urn:x'/>") == nil, "what is no region is none")
        #expect(try rest("text", "<subject/><body start='0' end='2'/>") == "xt")
        #expect(
            try chat("<body>text</body><fallback xmlns='urn:xmpp:fallback:0'/>").body(understanding: [""])
                == "text")
        let two = try chat(
            """
            <body>0123456789</body><fallback xmlns='urn:xmpp:fallback:0' for='urn:x'><body start='0' end='2'/></fallback>\
            <fallback xmlns='urn:xmpp:fallback:0' for='urn:y'><body start='5' end='7'/></fallback>
            """)
        #expect(two.body(understanding: ["urn:x"]) == "23456789")
        #expect(two.body(understanding: ["urn:x", "urn:y"]) == "234789")
        #expect(try chat("").body(understanding: ["urn:x"]) == nil)
        #expect(
            try chat("<body>x</body><fallback xmlns='urn:xmpp:fallback:0' for='urn:x'/>", type: "error")
                .fallbacks == [])
    }

    @Test("X28 a fallback is read and written as XEP-0428 has it")
    func fallbacks() throws {
        for regions in [
            [], [.body(nil)], [.subject(nil), .body(0..<33)], [.body(0..<0), .body(4..<9), .subject(1..<2)],
        ] as [[MessageFallback.Region]] {
            let fallback = MessageFallback(for: Namespaces.replies, regions)
            let xml = Message(to: nil, children: [fallback.element]).element.serialized()
            #expect(try message(xml).fallbacks == [fallback])
        }
        let example = try Element(
            parsing:
                "<fallback xmlns='urn:xmpp:fallback:0' for='urn:xmpp:reply:0'><body start='0' end='33' /></fallback>"
        )
        #expect(MessageFallback(for: Namespaces.replies, [.body(0..<33)]).element == example)
    }

    // MARK: Markers

    @Test("X28 displayed markers are read and written as XEP-0333 has them")
    func markers() throws {
        let question = try message(
            """
            <message to='juliet@capulet.lit' from='romeo@montegue.lit/orchard' id='the-msg-1'><body>Hi. How are you?</body>\
            <markable xmlns='urn:xmpp:chat-markers:0'/><request xmlns='urn:xmpp:receipts'/></message>
            """)
        let seen = try message(
            """
            <message to='romeo@montegue.lit' from='juliet@capulet.let/balcony'>\
            <displayed xmlns='urn:xmpp:chat-markers:0' id='the-msg-1'/></message>
            """)
        #expect(question.displayMarker == .markable && question.requestsReceipt)
        #expect(seen.displayMarker == .displayed("the-msg-1"))
        #expect(DisplayMarker(upTo: question) == .displayed("the-msg-1"))
        let inRoom = try message(
            """
            <message from='coven@chat.shakespeare.lit/firstwitch' id='message-1' type='groupchat'>\
            <thread>Act IV, Scene I</thread><body>Thrice</body><markable xmlns='urn:xmpp:chat-markers:0' />\
            <stanza-id xmlns='urn:xmpp:sid:0' by='coven@chat.shakespeare.lit' id='39K7ZYIp' /></message>
            """)
        #expect(inRoom.displayMarker == .markable && DisplayMarker(upTo: inRoom) == .displayed("39K7ZYIp"))
        for marker in [DisplayMarker.markable, .displayed("a<&'")] {
            let xml = Message(to: nil, id: "1", children: [marker.element]).element.serialized()
            #expect(try message(xml).displayMarker == marker)
        }
        let both =
            "<markable xmlns='urn:xmpp:chat-markers:0'/><displayed xmlns='urn:xmpp:chat-markers:0' id='x'/>"
        #expect(try chat(both).displayMarker == .displayed("x"), "a marker asks for none")
        let broken = "<markable xmlns='urn:xmpp:chat-markers:0'/><displayed xmlns='urn:xmpp:chat-markers:0'/>"
        #expect(try chat(broken).displayMarker == nil)
        #expect(
            try message("<message><markable xmlns='urn:xmpp:chat-markers:0'/></message>").displayMarker == nil
        )
        for old in ["received", "acknowledged"] {
            #expect(try chat("<\(old) xmlns='urn:xmpp:chat-markers:0' id='x'/>").displayMarker == nil)
        }
        #expect(try chat("<displayed xmlns='urn:xmpp:mds:displayed:0' id='x'/>").displayMarker == nil)
    }

    // MARK: Hints

    @Test("X28 processing hints are read and written as XEP-0334 has them, and mean nothing in errors")
    func hints() throws {
        let names = ["no-permanent-store", "no-store", "no-copy", "store"]
        #expect(ProcessingHint.allCases.map(\.rawValue) == names)
        for (name, hint) in zip(names, ProcessingHint.allCases) {
            #expect(hint.element == (try Element(parsing: "<\(name) xmlns='urn:xmpp:hints'/>")))
            #expect(try chat("<\(name) xmlns='urn:xmpp:hints'/>").hints == [hint])
            #expect(try chat("<\(name) xmlns='urn:xmpp:hints'/>", type: "error").hints == [])
        }
        #expect(
            try chat(
                "<no-copy xmlns='urn:xmpp:hints'/><no-store xmlns='urn:xmpp:hints'/><no-copy xmlns='urn:xmpp:hints'/>"
            )
            .hints == [.noCopy, .noStore])
        #expect(try chat("<store xmlns='urn:x'/><Store xmlns='urn:xmpp:hints'/>").hints == [])
    }

    // MARK: Spoilers

    @Test("X28 a spoiler is read and written as XEP-0382 has it, with a topic for each language")
    func spoilers() throws {
        let ns = "xmlns='urn:xmpp:spoiler:0'"
        #expect(try chat("<body>x</body>").spoiler == nil)
        #expect(try chat("<body>x</body><spoiler \(ns)/>").spoiler == MessageSpoiler())
        #expect(
            try chat("<spoiler \(ns)>Love story end</spoiler>").spoiler == MessageSpoiler("Love story end"))
        let two = try #require(
            try chat(
                """
                <spoiler xml:lang='en' \(ns)>Love story end</spoiler><spoiler xml:lang='ca' \(ns)>Fi</spoiler>\
                <spoiler xml:lang='de' \(ns)/>
                """
            ).spoiler)
        #expect(two.topics == [.init("Love story end", language: "en"), .init("Fi", language: "ca")])
        let three = MessageSpoiler(two.topics + [.init("plain")])
        for spoiler in [MessageSpoiler(), MessageSpoiler("x"), two, three] {
            let xml = Message(to: nil, children: spoiler.elements).element.serialized()
            #expect(try message(xml).spoiler == spoiler)
        }
        #expect(try chat("<spoiler \(ns)/>", type: "error").spoiler == nil)
    }

    // MARK: All of them

    private static let references: [(String, @Sendable (Message) -> Bool)] = [
        ("replace xmlns='urn:xmpp:message-correct:0'", { $0.correction != nil }),
        ("retract xmlns='urn:xmpp:message-retract:1'", { $0.retraction != nil }),
        ("retracted xmlns='urn:xmpp:message-retract:1'", { $0.tombstone != nil }),
        ("reactions xmlns='urn:xmpp:reactions:0'", { $0.reactions != nil }),
        ("reply xmlns='urn:xmpp:reply:0'", { $0.reply != nil }),
        ("displayed xmlns='urn:xmpp:chat-markers:0'", { $0.displayMarker != nil }),
    ]

    @Test(
        "X28 a value without an id, with an empty one, twice, in an error or in another namespace is none",
        arguments: references.indices)
    func malformed(index: Int) throws {
        let (tag, isThere) = Self.references[index]
        #expect(try isThere(chat("<\(tag) id='x'/>")), "\(tag)")
        #expect(
            try isThere(chat("<\(tag) id='\u{1F600}&lt;' more='1'>text<x/></\(tag.prefix { $0 != " " })>")),
            "\(tag)")
        for wrong in ["<\(tag)/>", "<\(tag) id=''/>", "<\(tag) ID='x'/>", "<\(tag) id='x'/><\(tag) id='x'/>"]
        {
            #expect(try !isThere(chat(wrong)), "\(wrong)")
        }
        #expect(try !isThere(chat("<\(tag.dropLast())0' id='x'/>")), "\(tag)")
        #expect(try !isThere(chat("<x xmlns='urn:x'><\(tag) id='x'/></x>")), "\(tag)")
        #expect(try !isThere(chat("<\(tag) id='x'/>", type: "error")), "\(tag)")
    }

    @Test("X28 a time or an author that is none makes the value none")
    func malformedParts() throws {
        #expect(
            try chat("<retracted xmlns='urn:xmpp:message-retract:1' id='x' stamp='yesterday'/>").tombstone
                == nil)
        #expect(try chat("<reply xmlns='urn:xmpp:reply:0' id='x' to='@'/>").reply == nil)
        let error = #expect(throws: ElementValueError.self) {
            try MessageReply(Element(parsing: "<reply xmlns='urn:xmpp:reply:0' id='x' to='@'/>"))
        }
        #expect(error?.place == .attribute("to") && error?.code == .malformed)
        let empty = #expect(throws: ElementValueError.self) {
            try MessageCorrection(Element(parsing: "<replace xmlns='urn:xmpp:message-correct:0' id=''/>"))
        }
        #expect(empty?.place == .attribute("id"))
    }

    @Test("X28 what one message can bring is bounded, and costs its bytes")
    func bounds() throws {
        func many(_ count: Int, _ element: (Int) -> Element) -> [Element] { (0..<count).map(element) }
        let reactions = Element(
            "reactions", namespace: Namespaces.reactions, attributes: ["id": "1"],
            children: many(100_000) { Element("reaction", namespace: Namespaces.reactions, text: "r\($0)") })
        let region = Element("body", namespace: Namespaces.fallback, attributes: ["start": "0", "end": "1"])
        let fallbacks = many(2000) { _ in
            Element(
                "fallback", namespace: Namespaces.fallback, attributes: ["for": "urn:x"],
                children: [Element](repeating: region, count: 100))
        }
        let spoilers = many(50_000) { Element("spoiler", namespace: Namespaces.spoilers, text: "s\($0)") }
        let marks = "ab" + String(repeating: "\u{301}\u{316}", count: 250_000)
        let message = Message(
            to: nil, from: try JID("a@b"), id: "1", body: marks, children: [reactions] + fallbacks + spoilers)
        let time = processorTime {
            #expect(message.reactions?.reactions.count == MessageReactions.maximumCount)
            #expect(message.fallbacks.count == MessageFallback.maximumCount)
            #expect(message.fallbacks.first?.regions.count == MessageFallback.maximumCount)
            #expect(message.spoiler?.topics.count == MessageSpoiler.maximumTopics)
            #expect(message.body(understanding: ["urn:x"])?.utf8.count == marks.utf8.count - 1)
            let quoted = MessageReply(to: "1").quoting(marks + "\n" + marks, by: marks, before: marks)
            #expect(quoted.body.utf8.count == marks.utf8.count * 4 + 10)
        }
        #expect(time < 5000)
    }
}
