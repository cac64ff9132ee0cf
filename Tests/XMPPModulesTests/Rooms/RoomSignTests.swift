import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount
@testable import XMPPModules

/// Rooms that leave out a sign of what they have done: each of the others is enough.
@Suite(.ownThread) struct RoomSignTests {
    private static let room = "council@conference.localhost"

    // MARK: What a room sends

    private func presence(
        _ nick: String, _ item: String = "", codes: [Int] = [], id: ForeignText? = nil, isGone: Bool = false
    ) -> String {
        let statuses = codes.map { "<status code='\($0)'/>" }.joined()
        return """
            <presence from='\(Self.room)/\(nick)' to='\(FedAccount.full)'\(id.map { " id='\($0)'" } ?? "")\
            \(isGone ? " type='unavailable'" : "")><x xmlns='\(Namespaces.mucUser)'>\
            <item affiliation='none' role='participant'\(item)/>\(statuses)</x></presence>
            """
    }

    private static let ownJID = " jid='\(FedAccount.full)'"
    private static let subject = message(nil, "<subject/>")

    private static func message(_ nick: String?, _ content: String, id: String? = nil) -> String {
        """
        <message type='groupchat' from='\(room)\(nick.map { "/\($0)" } ?? "")' to='\(FedAccount.full)'\
        \(id.map { " id='\($0)'" } ?? "")>\(content)</message>
        """
    }

    private static func said(_ id: String, delay: String? = nil) -> String {
        let stamp =
            delay.map { "<delay xmlns='\(Namespaces.delay)' stamp='2026-01-01T00:00:00Z'\($0)/>" } ?? ""
        return message("Romeo", "<body>x</body>\(stamp)", id: id)
    }

    // MARK: The account

    private func room(_ fed: FedAccount) throws -> Room? {
        try fed.step { try fed.account.rooms.room(JID(Self.room), in: $0) }
    }

    private func occupants(_ fed: FedAccount) throws -> [String] {
        try fed.step { try fed.account.rooms.occupants(of: JID(Self.room), in: $0).map(\.nick.string) }
    }

    /// Asks to be let in.
    ///
    /// - Returns: The id of that presence.
    private func ask(_ fed: FedAccount) throws -> ForeignText {
        _ = try fed.step { step in
            try fed.account.rooms.join(
                JID(Self.room), as: "Alice", then: RoomNoted(name: "first").durable, in: step)
        }
        let id = try #require(try fed.takeSent().last?["id"])
        try fed.receive(presence("Romeo"))
        #expect(try room(fed)?.state == .joining)
        return id
    }

    private func join(_ fed: FedAccount, _ codes: [Int] = [110]) throws {
        _ = try ask(fed)
        try fed.receive(presence("Alice", codes: codes))
        #expect(try room(fed)?.state == .joined)
        _ = try fed.takeSent()
    }

    // MARK: Joining

    private static let signs = [
        "110", "201", "210", "id", "jid", "nickname and subject", "subject", "nickname and history",
        "nickname alone",
    ]

    @Test("X33 each sign of the own presence is enough to be in a room", arguments: signs)
    func joins(sign: String) async throws {
        try await withFed(RoomsModule()) { fed in
            let id = try ask(fed)
            var nick = "Alice"
            switch sign {
            case "110", "201": try fed.receive(presence("Alice", codes: [Int(sign) ?? 0]))
            case "210":
                nick = "Alice2"
                // Somebody else has the nickname that was asked for.
                try fed.receive(presence("Alice"))
                #expect(try room(fed)?.state == .joining)
                try fed.receive(presence(nick, codes: [210]))
            case "id":
                nick = "Alice_"
                try fed.receive(presence(nick, id: id))
            case "jid":
                nick = "Alice_"
                try fed.receive(presence(nick, Self.ownJID))
            case "subject": try fed.receive(Self.subject)
            default:
                try fed.receive(presence("Alice"))
                #expect(try room(fed)?.state == .joining)
                switch sign {
                case "nickname and subject": try fed.receive(Self.subject)
                case "nickname and history": try fed.receive(Self.said("h", delay: ""))
                default: try timeOut(fed)
                }
            }
            #expect(try room(fed)?.state == .joined)
            #expect(try room(fed)?.nick.string == nick)
            #expect(
                try fed.store.notes("room").map { $0.prefix(6 + 11 + nick.count) } == [
                    "first: joined as \(nick)"
                ])
        }
    }

    private func timeOut(_ fed: FedAccount) throws {
        try fed.step { step in
            let waiter = try step.first("SELECT waiter FROM room") { AnyHandlerID(rawValue: $0.integer(0)) }
            try step.invalidate(try #require(waiter), reason: .timedOut, environment: fed.account)
        }
    }

    @Test("X33 somebody else's presence is no sign, whatever nickname it has; without any, joining times out")
    func others() async throws {
        try await withFed(RoomsModule()) { fed in
            _ = try ask(fed)
            try fed.receive(presence("Alice", " jid='mallory@localhost/x'", id: "other"))
            try fed.receive(presence("Bob", " jid='\(FedAccount.own)/another'"))
            try fed.receive(Self.said("h", delay: ""))
            #expect(try room(fed)?.state == .joining)
            try timeOut(fed)
            #expect(try room(fed)?.state == .left)
            #expect(try fed.store.notes("room") == ["first: timed out"])
        }
    }

    @Test("X33 a refusal after a sign that was taken for joining counts")
    func refusedAfterwards() async throws {
        try await withFed(RoomsModule()) { fed in
            let id = try ask(fed)
            try fed.receive(Self.subject)
            #expect(try room(fed)?.state == .joined)
            try fed.receive(
                """
                <presence type='error' from='\(Self.room)/Alice' id='\(id)'><error type='auth'>\
                <forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>
                """)
            #expect(try room(fed)?.state == .left)
        }
    }

    // MARK: Nicknames

    private static let renames = [
        "all of it", "no 303", "no new nickname", "no new nickname and nothing asked", "jid alone",
        "nothing but the nickname that was asked for",
    ]

    @Test("X33 each sign of another own nickname is enough", arguments: renames)
    func renamed(way: String) async throws {
        try await withFed(RoomsModule()) { fed in
            try join(fed)
            if !way.hasSuffix("nothing asked") {
                try fed.step { try fed.account.rooms.changeNick(in: JID(Self.room), to: "Ally", in: $0) }
            }
            switch way {
            case "all of it":
                try fed.receive(presence("Alice", " nick='Ally'", codes: [110, 303], isGone: true))
                try fed.receive(presence("Ally", codes: [110]))
            case "no 303": try fed.receive(presence("Alice", " nick='Ally'", isGone: true))
            case "no new nickname": try fed.receive(presence("Alice", codes: [303], isGone: true))
            case "no new nickname and nothing asked":
                try fed.receive(presence("Alice", codes: [303], isGone: true))
                #expect(try room(fed)?.state == .joined)
                try fed.receive(presence("Ally", codes: [110]))
            case "jid alone": try fed.receive(presence("Ally", Self.ownJID))
            default: try fed.receive(presence("Ally"))
            }
            #expect(try room(fed)?.state == .joined)
            #expect(try room(fed)?.nick == "Ally")
            #expect(try occupants(fed) == ["Ally", "Romeo"])
        }
    }

    @Test("X33 who is put out is not renamed, and another occupant is whom the room says")
    func notRenamed() async throws {
        try await withFed(RoomsModule()) { fed in
            try join(fed)
            try fed.receive(presence("Romeo", " nick='Rome'", isGone: true))
            #expect(try occupants(fed) == ["Alice", "Rome"])
            try fed.step { try fed.account.rooms.changeNick(in: JID(Self.room), to: "Rome", in: $0) }
            try fed.receive(presence("Rome", " jid='romeo@localhost/x'"))
            #expect(try room(fed)?.nick == "Alice")
            try fed.receive(presence("Alice", " nick='Ally'", codes: [307], isGone: true))
            #expect(try room(fed)?.state == .left)
        }
    }

    // MARK: History

    @Test(
        "X33 what comes before the end of the history is history, no matter whom its delay names; later only the room is believed",
        arguments: [subject, message("Romeo", "<body>live</body>", id: "end")])
    func history(end: String) async throws {
        try await withFed(RoomsModule()) { fed in
            try join(fed)
            let delays = [
                " from='\(Self.room)'", "", " from='\(Self.room)/Romeo'", " from='romeo@localhost/x'",
            ]
            for (number, delay) in delays.enumerated() {
                try fed.receive(Self.said("h\(number)", delay: delay))
            }
            try fed.receive(end)
            for (number, delay) in delays.enumerated() {
                try fed.receive(Self.said("l\(number)", delay: delay))
            }
            let kinds = try fed.store.notes("kind").filter { !$0.hasPrefix("end") }
            #expect(
                kinds == [
                    "h0: history", "h1: history", "h2: history", "h3: history", "l0: history", "l1: news",
                    "l2: news", "l3: news",
                ])
        }
    }

    @Test("X33 what a room may not have got is sent again although it answers no ping")
    func silentPing() async throws {
        try await withFed(RoomsModule()) { fed in
            try join(fed)
            _ = try fed.step { try fed.account.rooms.send("hi", to: JID(Self.room), in: $0) }
            #expect(try fed.takeSent().map(\.name) == ["message"])
            // Another session: the room has not sent it back.
            try fed.step { step in
                let module: RoomsModule = try fed.account.module()
                try module.reset(.session, of: fed.account, in: step)
                try module.start(.session, of: fed.account, in: step)
            }
            #expect(try fed.takeSent().map(\.name) == ["presence"])
            try fed.receive(presence("Alice", codes: [110]))
            let ping = try #require(try fed.takeSent().last)
            #expect(ping.firstElement?.name == "ping")
            #expect(try fed.offline.expire(requestID: ping["id"]?.string ?? ""))
            #expect(try fed.takeSent().map(\.name) == ["message"])
        }
    }

    @Test("X31 a room's message whose id is empty is no copy of another one")
    func emptyIDs() async throws {
        try await withFed(RoomsModule()) { fed in
            try join(fed)
            for _ in 0..<2 { try fed.receive(Self.said("")) }
            #expect(try fed.store.notes("message") == [": x", ": x"])
        }
    }
}
