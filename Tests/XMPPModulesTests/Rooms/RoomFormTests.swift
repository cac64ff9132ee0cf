import AccountTestSupport
import Handlers
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount
@testable import XMPPModules

/// Rooms whose service writes their address otherwise than the program (RFC 3920 and RFC 7622).
@Suite(.ownThread) struct RoomFormTests {
    private static let asked = "straße@conference.localhost"
    private static let served = "strasse@conference.localhost"

    private func presence(
        _ address: String, _ nick: String = "Alice", codes: [Int] = [110], id: ForeignText? = nil,
        item: String = ""
    ) -> String {
        let statuses = codes.map { "<status code='\($0)'/>" }.joined()
        return """
            <presence from='\(address)/\(nick)' to='\(FedAccount.full)'\(id.map { " id='\($0)'" } ?? "")>\
            <x xmlns='\(Namespaces.mucUser)'><item affiliation='none' role='participant'\(item)/>\(statuses)</x></presence>
            """
    }

    private func message(_ address: String, _ id: String) -> String {
        """
        <message type='groupchat' from='\(address)/Romeo' to='\(FedAccount.full)' id='\(id)'><body>said</body></message>
        """
    }

    private func room(_ fed: FedAccount, _ address: String = asked) throws -> Room? {
        try fed.step { try fed.account.rooms.room(JID(address), in: $0) }
    }

    /// Asks to be let in.
    ///
    /// - Returns: The question for the room's name, and the presence.
    private func ask(_ fed: FedAccount, _ address: String = asked) throws -> (
        question: Element, join: Element
    ) {
        _ = try fed.step { step in
            try fed.account.rooms.join(
                JID(address), as: "Alice", then: RoomNoted(name: "first").durable, in: step)
        }
        let sent = try fed.takeSent()
        #expect(sent.map(\.name.string) == ["iq", "presence"])
        return (try #require(sent.first), try #require(sent.last))
    }

    @Test(
        "X30 a room is joined under the form of its service, which shows that it was asked",
        arguments: ["answer", "id", "own address", "110"])
    func joined(sign: String) async throws {
        try await withFed(RoomsModule()) { fed in
            let (question, join) = try ask(fed)
            switch sign {
            case "answer":
                try fed.receive(
                    """
                    <iq type='error' id='\(question["id"] ?? "")' from='\(Self.served)'><error type='cancel'>\
                    <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
                    """)
                try fed.receive(presence(Self.served, "Romeo", codes: []))
                try fed.receive(presence(Self.served))
                let nicks = try fed.step {
                    try fed.account.rooms.occupants(of: JID(Self.asked), in: $0).map(\.nick)
                }
                #expect(nicks == ["Alice", "Romeo"], "also of those who came before the own presence")
            case "id": try fed.receive(presence(Self.served, codes: [], id: join["id"]))
            case "own address":
                try fed.receive(presence(Self.served, codes: [], item: " jid='\(FedAccount.full)'"))
            default: try fed.receive(presence(Self.served))
            }
            let room = try #require(try room(fed))
            #expect(try room.state == .joined && room.jid == JID(Self.served))
            #expect(try self.room(fed, Self.served) == room)
            #expect(try fed.store.notes("room") == ["first: joined as Alice"])
            try fed.receive(message(Self.served, "m1"))
            #expect(try fed.store.notes("message") == ["m1: said"])
            // What the program says goes to the room that it is in.
            _ = try fed.step { try fed.account.rooms.send("hello", to: JID(Self.asked), in: $0) }
            #expect(try fed.takeSent().last?["to"] == ForeignText(Self.served))
            #expect(try fed.step { try fed.account.rooms.leave(JID(Self.asked), in: $0) })
            #expect(try self.room(fed)?.state == .left)
            #expect(try fed.store.number("SELECT count(*) FROM room") == 1)
        }
    }

    @Test("X30 a refusal under the other form with the id of the join ends it")
    func refused() async throws {
        try await withFed(RoomsModule()) { fed in
            let join = try ask(fed).join
            func refusal(_ id: ForeignText) -> String {
                """
                <presence type='error' id='\(id)' from='\(Self.served)/Alice'><error type='auth'>\
                <forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>
                """
            }
            try fed.receive(refusal("guessed"))
            #expect(try room(fed)?.state == .joining)
            try fed.receive(refusal(try #require(join["id"])))
            #expect(try room(fed)?.state == .left)
        }
    }

    @Test("X30 nobody else can pose as the room: another domain, another name, an account, after the join")
    func forged() async throws {
        try await withFed(RoomsModule()) { fed in
            _ = try ask(fed)
            for stranger in [
                "strasse@evil.example", "strasze@conference.localhost",
                "strasse@conference.localhost.evil.example",
            ] {
                try fed.receive(presence(stranger))
                try fed.receive(presence(stranger, codes: [], item: " jid='\(FedAccount.full)'"))
            }
            // Another room of a service that keeps the two apart says nothing of the account.
            try fed.receive(presence(Self.served, "Romeo", codes: []))
            try fed.receive(presence(Self.served, codes: [], id: "guessed"))
            try fed.receive(presence(Self.served, codes: [], item: " jid='\(FedAccount.own)/tablet'"))
            #expect(try room(fed)?.state == .joining)
            try fed.receive(presence(Self.asked))
            #expect(try room(fed)?.state == .joined && room(fed)?.jid == JID(Self.asked))
            try fed.receive(presence(Self.served))
            try fed.receive(message(Self.served, "m1"))
            #expect(try fed.store.notes("message").isEmpty)
            #expect(try room(fed)?.jid == JID(Self.asked))
        }
    }

    @Test("X30 where accounts are, that a presence says it is the own one is not enough")
    func accounts() async throws {
        try await withFed(RoomsModule()) { fed in
            let join = try ask(fed, "straße@localhost").join
            try fed.receive(presence("strasse@localhost"))
            #expect(try room(fed, "straße@localhost")?.state == .joining)
            try fed.receive(presence("strasse@localhost", id: join["id"]))
            #expect(try room(fed, "straße@localhost")?.state == .joined)
        }
    }

    @Test("X30 a room of the other form that the account is in stays itself")
    func both() async throws {
        try await withFed(RoomsModule()) { fed in
            _ = try fed.step { try fed.account.rooms.join(JID(Self.served), as: "Alice", in: $0) }
            try fed.receive(presence(Self.served))
            _ = try fed.takeSent()
            let join = try ask(fed).join
            try fed.receive(presence(Self.served, id: join["id"]))
            #expect(try room(fed, Self.served)?.state == .joined)
            #expect(try room(fed)?.state == .joining)
            try fed.receive(presence(Self.asked))
            #expect(try room(fed)?.jid == JID(Self.asked))
        }
    }
}
