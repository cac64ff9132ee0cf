import AccountTestSupport
import Handlers
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount
@testable import XMPPModules

/// An account whose server writes its address otherwise than the program: after the login it has the server's form and no other.
@Suite(.ownThread) struct OwnAddressTests {
    private static let configured = "νίκος@localhost"
    private static let own = "νίκοσ@localhost"
    private static let full = "νίκοσ@localhost/phone"

    private func withNikos(_ modules: any AccountModule..., body: (FedAccount) throws -> Void) async throws {
        let fed = try FedAccount(modules, configured: Self.configured, assigned: Self.full)
        let result = Result { try body(fed) }
        await fed.close()
        try result.get()
    }

    private func message(_ id: String, from: String, _ more: String = "") -> String {
        "<message from='\(from)' to='\(Self.full)' id='\(id)' type='chat'><body>x</body>\(more)</message>"
    }

    private func copy(from: String, inner: String) -> String {
        """
        <message from='\(from)' to='\(Self.full)'><sent xmlns='\(Namespaces.carbons)'>\
        <forwarded xmlns='\(Namespaces.forward)'><message xmlns='jabber:client' from='\(inner)/other' \
        to='romeo@localhost' id='c1' type='chat'><body>x</body></message></forwarded></sent></message>
        """
    }

    @Test("X30 a message from another client of the account is its own, under the assigned address alone")
    func outgoing() async throws {
        try await withNikos { fed in
            try fed.receive(message("o1", from: "\(Self.own)/other"))
            try fed.receive(message("o2", from: "\(Self.configured)/other"))
            #expect(try fed.store.notes("kind") == ["o1: news of its own", "o2: news"])
            #expect(try fed.account.address == JID(Self.own))
        }
    }

    @Test(
        "X30 what was stored for a later call is still the account's own, in a process that has not logged in"
    )
    func restored() async throws {
        try await withNikos { fed in
            let own = try JID(Self.own)
            var inbound = InboundMessage(
                message: try Message(
                    element: Element(
                        parsing: message("o1", from: "\(Self.own)/other"), defaultNamespace: Namespaces.client
                    )))
            inbound.own = own
            let bytes = try MessageReceived(account: fed.account, inbound).stored()
            fed.account.assigned.withLock { $0 = nil }
            #expect(try MessageReceived(restoring: bytes, in: fed.account).isOutgoing)
            // As earlier versions stored it.
            inbound.own = try JID(Self.configured)
            let plain = try MessageReceived(account: fed.account, inbound).stored()
            #expect(plain.first == UInt8(ascii: "<"))
        }
    }

    @Test(
        "X30 carbon copies come from the assigned address; anybody else who has the configured one is a stranger"
    )
    func carbons() async throws {
        try await withNikos(CarbonsModule()) { fed in
            let forged = try fed.receive(copy(from: Self.configured, inner: Self.configured))
            #expect(forged != nil)
            let foreign = try fed.receive(copy(from: Self.own, inner: "romeo@localhost"))
            #expect(foreign != nil)
            #expect(try fed.store.notes("message").isEmpty)
            let copied = try fed.receive(copy(from: Self.own, inner: Self.own))
            #expect(copied == nil)
            #expect(try fed.store.notes("kind") == ["c1: news of its own"])
        }
    }

    @Test("X30 inside a copy of the own server's the account may be written as another client of it has it")
    func otherClient() async throws {
        try await withFed(CarbonsModule(), configured: "groß@localhost", assigned: "groß@localhost/phone") {
            fed in
            let text = copy(from: "groß@localhost", inner: "gross@localhost")
            let refusal = try fed.receive(text.replacing(Self.full, with: "groß@localhost/phone"))
            #expect(refusal == nil)
            let forged = copy(from: "gross@localhost", inner: "gross@localhost").replacing("c1", with: "c2")
            let forgery = try fed.receive(forged.replacing(Self.full, with: "groß@localhost/phone"))
            #expect(forgery != nil)
            #expect(try fed.store.notes("message") == ["c1: x"])
        }
    }

    @Test("X30 the roster is changed by the assigned address alone")
    func roster() async throws {
        try await withNikos(RosterModule()) { fed in
            func push(_ from: String, _ contact: String) throws {
                try fed.receive(
                    """
                    <iq type='set' id='p' from='\(from)' to='\(Self.full)'><query xmlns='jabber:iq:roster'>\
                    <item jid='\(contact)' subscription='both'/></query></iq>
                    """)
            }
            try push(Self.configured, "mallory@localhost")
            try push(Self.own, "romeo@localhost")
            let contacts = try fed.step { try fed.account.roster.items(in: $0).map(\.jid.description) }
            #expect(contacts == ["romeo@localhost"])
        }
    }

    @Test(
        "X30 the archive is that of the assigned address, and goes on where it was under the configured one")
    func archive() async throws {
        try await withNikos(ArchiveModule()) { fed in
            try fed.step { step in
                try ArchiveTable(account: fed.account.id).enqueue(JID(Self.configured), since: nil, in: step)
                try step.execute("UPDATE archive SET last_id = 'A7', state = 0")
                try fed.account.startModules(.session, in: step)
            }
            #expect(try fed.store.number("SELECT count(*) FROM archive WHERE jid = '\(Self.own)'") == 1)
            #expect(try fed.store.number("SELECT count(*) FROM archive") == 1)
            let request = try #require(try fed.takeSent().last)
            #expect(request["to"] == nil)
            let query = try #require(request.firstElement)
            #expect(query.child("set", Namespaces.rsm)?.child("after", Namespaces.rsm)?.text == "A7")
            func result(_ id: String, from: String, _ query: ForeignText) throws -> String? {
                try fed.receive(
                    """
                    <message from='\(from)' to='\(Self.full)'><result xmlns='\(Namespaces.mam)' id='\(id)' \
                    queryid='\(query)'><forwarded xmlns='\(Namespaces.forward)'><message xmlns='jabber:client' id='\(id)' \
                    from='romeo@localhost/a' to='\(Self.own)' type='chat'><body>kept</body></message></forwarded>\
                    </result></message>
                    """)
            }
            let id = try #require(query["queryid"])
            let forged = try result("F1", from: "mallory@localhost", id)
            #expect(forged != nil)
            let guessed = try result("F2", from: Self.configured, "guessed")
            #expect(guessed != nil)
            let mine = try result("A8", from: Self.own, id)
            #expect(mine == nil)
            #expect(try fed.store.notes("message") == ["A8: kept"])
        }
    }

    // MARK: Other people

    @Test("X30 a receipt under another form of the recipient counts if nobody could guess the message's id")
    func receipts() async throws {
        try await withFed(ChatModule()) { fed in
            func isDelivered(_ id: String?, by sender: String) throws -> Bool {
                let sent = try fed.step { step in
                    try fed.account.chat.send(
                        Message(to: JID("groß@localhost"), id: id, body: "x"), in: step)
                }
                try fed.receive(
                    """
                    <message from='\(sender)' to='\(FedAccount.full)'><received xmlns='\(Namespaces.receipts)' id='\(sent)'/>\
                    </message>
                    """)
                return try fed.step { try fed.account.chat.delivery(of: sent, in: $0)?.deliveredAt != nil }
            }
            let delivered = [
                try isDelivered(nil, by: "gross@localhost/a"), try isDelivered("1", by: "groß@localhost/a"),
                try isDelivered("2", by: "gross@localhost/a"), try isDelivered(nil, by: "grosz@localhost/a"),
                try isDelivered(nil, by: "gross@evil.example/a"),
            ]
            #expect(delivered == [true, true, false, false, false])
        }
    }
}
