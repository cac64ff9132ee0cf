import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore

@testable import Omemo
@testable import XMPPAccount
@testable import XMPPModules

/// What goes with an encrypted text: in clear where the legacy version has it, and in the envelope of omemo:2.
@Suite(.ownThread) struct BesideTests {
    /// Notes the message as its sender wrote it.
    private struct Read: Handler {
        static let id = "test.read"
        func run(_ call: borrowing Call<OmemoReceived>) throws {
            let text = call.context.decrypted?.element.serialized() ?? "-"
            try call.step.execute("INSERT INTO note(text) VALUES (?)", text)
        }
    }

    /// Notes that the server has a message.
    private struct Had: Handler {
        static let id = "test.had"
        func run(_ call: borrowing Call<StanzaAcknowledged>) throws {
            try call.step.execute("INSERT INTO note(text) VALUES ('acknowledged')")
        }
    }

    /// Two devices that speak one version, and have spoken.
    private func pair(
        _ version: OmemoVersion, sendsReceipts: Bool = false
    ) throws -> (World, World.Client, World.Client) {
        let world = World()
        let both = try [juliet, romeo].map { jid in
            try world.add(
                jid + "/a",
                handlers: [World.Heard.self, World.Reported.self, Read.self, Had.self, Silent.self],
                modules: sendsReceipts ? [ChatModule(receipts: .everyone)] : [])
        }
        try world.settle()
        let other = version == .legacy ? OmemoVersion.omemo2 : .legacy
        for jid in [juliet, romeo] { world.nodes["\(jid) \(other.deviceListNode)"] = nil }
        try both[0].send("one", to: romeo)
        try world.settle()
        try both[1].send("two", to: juliet)
        try world.settle()
        for client in both {
            _ = try client.heard()
            try client.step { step in
                try client.omemo.listen(as: "read", Read().durable, in: step)
                try client.omemo.listen(as: "test", Silent().durable, in: step)
            }
            client.sent = []
        }
        return (world, both[0], both[1])
    }

    private struct Silent: Handler {
        static let id = "test.silent"
        func run(_ call: borrowing Call<OmemoReceived>) throws {}
    }

    private static let reply = MessageReply(to: "q1", of: try? JID(romeo)).quoting("how?", before: "well")
    private static let beside =
        [MessageCorrection(of: "m0").element, DisplayMarker.markable.element] + reply.children

    private static let file = Element(
        "x", namespace: Namespaces.outOfBand,
        children: [Element("url", namespace: Namespaces.outOfBand, text: "https://up.example/f#k")])

    private func names(_ element: Element) -> [String] { element.elements.map(\.name.string).sorted() }

    @Test(
        "X35 corrections, replies, markers and requests for receipts go in clear with the legacy version, and in the envelope of omemo:2",
        arguments: OmemoVersion.allCases)
    func sent(_ version: OmemoVersion) async throws {
        let (world, a, b) = try pair(version, sendsReceipts: true)
        let id = try a.send(Self.reply.body.string, to: romeo, elements: Self.beside)
        try world.settle()
        let stanza = try #require(a.sent.first)
        let always = ["encrypted", "encryption", "origin-id", "store"]
        let inClear = ["active", "body", "fallback", "markable", "replace", "reply", "request"]
        #expect(names(stanza) == (version == .legacy ? always + inClear : always).sorted())
        #expect(stanza.child("origin-id", Namespaces.sid)?["id"] == ForeignText(id))
        #expect(!stanza.serialized().contains("how?") && !stanza.serialized().contains("well"))
        let read = try Message(
            element: Element(parsing: #require(b.heard().first), defaultNamespace: Namespaces.client))
        #expect(read.correction?.id == "m0" && read.reply?.id == "q1" && read.displayMarker == .markable)
        #expect(read.body(understanding: [Namespaces.replies]) == "well")
        #expect(read.chatState == .active && read.requestsReceipt && read.id == ForeignText(id))
        await world.close()
    }

    @Test(
        "X35 an encrypted message is delivered once its recipient says so, and the program hears of the server's word",
        arguments: OmemoVersion.allCases)
    func delivered(_ version: OmemoVersion) async throws {
        let (world, a, _) = try pair(version, sendsReceipts: true)
        let id = try a.step { step in
            try a.omemo.send(
                OmemoContent(body: "hello"), to: JID(romeo), acknowledged: Had().durable, in: step)
        }
        let handler = try a.step { step in
            try #require(step.first("SELECT handler FROM outbox WHERE handler IS NOT NULL") { $0.integer(0) })
        }
        #expect(try a.step { try a.account.chat.delivery(of: id, in: $0) }?.deliveredAt == nil)
        try world.settle()
        #expect(try a.step { try a.account.chat.delivery(of: id, in: $0) }?.deliveredAt != nil)
        try a.step { step in
            let stanza = AcknowledgedStanza(id: ForeignText(id), storedKey: nil)
            _ = try step.end(
                HandlerID<StanzaAcknowledged>(rawValue: handler), .result,
                with: StanzaAcknowledged(account: a.account, stanza: stanza))
        }
        #expect(try a.heard() == ["acknowledged"])
        await world.close()
    }

    @Test("X35 a receipt in an envelope of omemo:2 is one, and is no message")
    func receiptInside() async throws {
        let (world, a, b) = try pair(.omemo2, sendsReceipts: true)
        let id = try a.send("hello", to: romeo)
        let receipt = Element("received", namespace: Namespaces.receipts, attributes: ["id": id])
        var answer = try b.message(
            OmemoEnvelope.bytes(OmemoContent(body: nil, elements: [receipt]), from: b.jid, room: nil), to: a,
            .omemo2)
        answer["to"] = a.jid.foreignText
        try world.receive(answer, a)
        #expect(try a.step { try a.account.chat.delivery(of: id, in: $0) }?.deliveredAt != nil)
        #expect(try a.heard() == [])
        await world.close()
    }

    @Test(
        "X35 what the legacy version cannot carry in clear without saying something is not sent, and a link to a file stays out"
    )
    func unsaid() async throws {
        let (world, a, b) = try pair(.legacy)
        let reactions = MessageReactions(["👋"], to: "q1").element
        let other = Element("note", namespace: "urn:example:note", text: "secret")
        for elements in [[reactions], [other], [Self.file]] {
            try a.send("no link", to: romeo, elements: elements)
            try world.settle()
            #expect(try a.heard().first?.contains("cannot carry all") == true)
            #expect(a.sent.isEmpty)
        }
        let shared = try Element(
            parsing: """
                <file-sharing xmlns='urn:xmpp:sfs:0'><file><name>a.png</name></file><sources>\
                <url-data xmlns='http://jabber.org/protocol/url-data' target='https://up.example/f'/></sources></file-sharing>
                """)
        try a.send("aesgcm://up.example/f#k", to: romeo, elements: [Self.file, shared])
        try world.settle()
        let stanza = try #require(a.sent.first)
        #expect(names(stanza) == ["body", "encrypted", "encryption", "origin-id", "store"])
        #expect(!stanza.serialized().contains("up.example"))
        #expect(try b.heard().first?.contains("aesgcm://up.example/f#k") == true)
        await world.close()
    }

    /// What a server could write beside a ciphertext.
    private static let forged = [
        Element("body", namespace: Namespaces.client, text: "forged"),
        Element("subject", namespace: Namespaces.client, text: "forged"), file,
        Element("html", namespace: "http://jabber.org/protocol/xhtml-im", text: "forged"),
        MessageReactions(["👎"], to: "q1").element, MessageRetraction(of: "m0").element,
        MessageCorrection(of: "m0").element, MessageReply(to: "q1").element,
    ]

    @Test(
        "X35 X6 nothing beside a ciphertext is taken for its content; beside an envelope not even a correction",
        arguments: OmemoVersion.allCases)
    func forged(_ version: OmemoVersion) async throws {
        let (world, a, b) = try pair(version)
        b.isOnline = false
        try a.send("true", to: romeo)
        try world.carry()
        let inbox = b.inbox
        b.inbox = []
        var stanza = try #require(inbox.last)
        stanza.children = Self.forged.map { .element($0) } + stanza.children
        try world.receive(stanza, b)
        let text = try #require(b.heard().first)
        let read = try Message(element: Element(parsing: text, defaultNamespace: Namespaces.client))
        #expect(read.body == "true" && read.reactions == nil && read.retraction == nil)
        #expect(!text.contains("forged") && !text.contains("up.example"))
        #expect((read.correction != nil) == (version == .legacy))
        #expect((read.reply != nil) == (version == .legacy))
        await world.close()
    }

    @Test(
        "X35 X6 a fallback that a server adds hides whole lines of quotes, and no word of the encrypted text")
    func hidden() {
        func rest(_ body: String, _ range: Range<Int>?) -> ForeignText? {
            let fallback = MessageFallback(for: Namespaces.replies, [.body(range)]).element
            let message = Message(to: nil, body: body, children: [fallback])
            let kept = OmemoBeside.elements(of: message, body: ForeignText(body))
            return Message(to: nil, body: body, children: kept).body(understanding: [Namespaces.replies])
        }
        #expect(rest("> how?\n> why?\nwell", 0..<14) == "well")
        #expect(rest("> how?", 0..<6) == nil)
        for (body, range) in [
            ("I do not agree", 5..<9), ("I do not agree", 0..<14), ("I do not agree", nil),
            ("> how?\nwell", 0..<11), ("> how?\nI do not", 0..<4), ("well\n> how?", 5..<11),
            ("> how?\nwell\n", 0..<12), ("> how?\n", 0..<99),
        ] as [(String, Range<Int>?)] {
            #expect(rest(body, range) == ForeignText(body), "\(body) \(String(describing: range))")
        }
    }
}
