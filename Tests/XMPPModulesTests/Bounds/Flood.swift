import Handlers
@testable import XMPPAccount
import IQTracker
import XMPPCore
@testable import XMPPModules

/// What others send until a table is full, and ten times as much.
enum Flood: String, CaseIterable, Codable {
    case messagesOfOne, messages, invitations, subscriptionRequests, unknownPresences, presences, resources
    case occupants, capabilityQueries, capabilities, requests, requestsOfOne, answers, roster, blocked, texts

    /// A table that is filled.
    struct Table {
        let name: String
        /// How many rows it may have.
        let rows: Int
        /// The columns that others fill, which may have so many bytes together, with the addresses of this flood.
        let columns: [String]
        let bytes: Int

        init(_ name: String, _ rows: Int, _ columns: [String], _ bytes: Int) {
            (self.name, self.rows, self.columns, self.bytes) = (name, rows, columns, bytes)
        }
    }

    /// The first one is what a tenth of the flood fills.
    var tables: [Table] {
        let presence = ["jid", "show", "status"]
        let (request, answers) = (["peer", "stanza_id"], BoundedAccount.maximumOutbox + OutboxReserve.size)
        return switch self {
        // With the message of the next wake.
        case .messagesOfOne:
            [Table("seen_mark", SeenSenders.marksEach + SeenSenders.piece + 1, ["mark"], 16)]
        case .messages:
            [
                Table("seen_sender", SeenSenders.limit + SeenSenders.piece, ["digest"], 16),
                Table("seen_mark", SeenSenders.limit + SeenSenders.piece, ["mark"], 16),
            ]
        case .invitations:
            [
                Table(
                    "room_invitation", RoomTable.invitationLimit,
                    ["room", "by", "reason", "password", "thread"], 3 * 1024 + 200)
            ]
        case .subscriptionRequests:
            [
                Table(
                    "subscription_request", SubscriptionTable.maximumRequests, ["jid", "status", "nick"],
                    2 * 1024 + 100)
            ]
        case .unknownPresences:
            [Table("contact_presence", ContactPresenceTable.maximumUnknown, presence, 1024 + 100)]
        case .presences:
            [Table("contact_presence", ContactPresenceTable.maximumRows, presence, 1024 + 100)]
        case .resources:
            [Table("contact_presence", ContactPresenceTable.maximumResources, presence, 1024 + 100)]
        case .occupants:
            [
                Table("occupant", RoomTable.occupantLimit, ["nick", "jid"], 200),
                Table("entity", CapabilityTable.entityLimit, ["jid", "verification"], 200),
            ]
        case .capabilityQueries:
            [
                Table("capability_query", CapabilityTable.queryLimit, ["verification"], 200),
                Table("request", CapabilityTable.queryLimit, ["peer"], 200),
            ]
        case .capabilities:
            [
                Table(
                    "capability", CapabilityTable.limit, ["verification", "info"],
                    CapabilityTable.longestInfo + 100)
            ]
        case .requests: [Table("inbound_request", InboundRequestTable.maximum, request, 1024 + 100)]
        case .requestsOfOne: [Table("inbound_request", InboundRequestTable.maximumEach, request, 1024 + 100)]
        case .answers: [Table("outbox", answers, ["xml"], 2000)]
        case .roster:
            [
                Table(
                    "roster_item", RosterTable.maximumItems, ["jid", "name", "groups"], 1024 + 32 * 260 + 100),
                Table("roster", 1, ["version"], 1024),
            ]
        case .blocked: [Table("blocked", BlockingTable.maximum, ["jid"], 200)]
        case .texts: [Table("room", 1, ["subject"], 8192 + 100)]
        }
    }

    var modules: [any AccountModule] {
        switch self {
        // Without a roster everybody is asked what their client understands.
        case .capabilityQueries, .capabilities: [DiscoModule()]
        default: [DiscoModule(), RosterModule(), RoomsModule(), BlockingModule()]
        }
    }

    /// How many numbers of the flood share a stanza.
    private var piece: Int {
        switch self {
        // As many items as the bytes and elements of an answer have room for.
        case .roster: 30_000
        case .blocked: 100
        default: 1
        }
    }

    // MARK: Filling

    /// What must be there before.
    func prepare(_ filled: BoundedAccount) throws {
        switch self {
        case .presences, .resources:
            let contacts = try (0..<500).map {
                try RosterItem(JID("c\($0)@contacts.lit"), subscription: .both)
            }
            try filled.step { step in
                try RosterTable(account: filled.id).replace(with: contacts, in: step)
                try RosterTable(account: filled.id).setLoaded(true, in: step)
            }
        case .requests, .requestsOfOne:
            try filled.step { step in
                try filled.account.listeners.set(
                    ListenerTable.requests, key: ListenerTable.key("ask", "urn:test"),
                    to: BoundedAccount.Silent().durable, in: step)
            }
        case .texts, .occupants:
            try filled.step { step in
                let (room, table) = (try JID("room@rooms.lit"), filled.account.rooms.table)
                try table.want(
                    room, nick: "alice", password: nil, history: .usual, configures: false, ticket: "t",
                    in: step)
                try table.setJoined(room, nick: "alice", connectedTime: 0, in: step)
            }
        default: break
        }
    }

    /// Makes a part of the flood.
    func fill(_ filled: BoundedAccount, _ numbers: Range<Int>) throws {
        let starts = stride(from: numbers.lowerBound, to: numbers.upperBound, by: piece)
        switch self {
        case .capabilities: for n in starts { try learn(filled, n) }
        case .roster:
            for start in starts { try list(filled, start..<min(start + piece, numbers.upperBound)) }
            try filled.receive((numbers.upperBound - 200..<numbers.upperBound).lazy.map { push($0) })
        default: try filled.receive(starts.lazy.map { stanza($0) })
        }
    }

    // MARK: Stanzas

    /// A text of many bytes that is one character.
    private static func marks(_ bytes: Int) -> String {
        "e" + String(repeating: "\u{301}", count: (bytes - 1) / 2)
    }

    private static func text(_ bytes: Int) -> String { String(repeating: "x", count: bytes) }

    /// One in ten is that long.
    private static func marks(_ bytes: Int, _ n: Int) -> String { n % 10 == 0 ? marks(bytes) : "short" }

    private static let caps =
        "<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:evil' ver="

    private func stanza(_ n: Int) -> String {
        switch self {
        case .messagesOfOne: "<message from='evil@evil.lit/r\(n)' id='id\(n)'><body>x</body></message>"
        case .messages: "<message from='s\(n)@evil.lit/x' id='1'><body>x</body></message>"
        case .invitations:
            """
            <message from='room\(n)@rooms.lit'><x xmlns='http://jabber.org/protocol/muc#user'>
            <invite from='evil@evil.lit'><reason>\(Self.marks(200_000, n))</reason>
            <continue thread='\(Self.text(3000))'/></invite><password>\(Self.text(3000))</password></x></message>
            """
        case .subscriptionRequests:
            """
            <presence type='subscribe' from='s\(n)@evil.lit'><status>\(Self.marks(6000, n))</status>
            <nick xmlns='http://jabber.org/protocol/nick'>\(Self.text(n % 10 == 0 ? 6000 : 6))</nick></presence>
            """
        case .unknownPresences:
            "<presence from='s\(n)@evil.lit/x'><status>\(Self.marks(4000, n))</status></presence>"
        case .presences:
            "<presence from='c\(n % 500)@contacts.lit/\(n / 500)'><status>away</status></presence>"
        case .resources:
            "<presence from='c1@contacts.lit/\(n)'><status>\(Self.marks(4000, n))</status></presence>"
        case .occupants:
            """
            <presence from='room@rooms.lit/n\(n)'>\(Self.caps)'of one client'/>
            <x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='none' role='visitor'
            jid='s\(n)@evil.lit/x'/></x></presence>
            """
        case .capabilityQueries:
            "<presence from='evil@evil.lit/x'>\(Self.caps)'version \(n)'/></presence>"
        case .requests: "<iq type='get' id='q' from='s\(n)@evil.lit/x'><ask xmlns='urn:test'/></iq>"
        case .requestsOfOne:
            "<iq type='get' id='q\(n)' from='evil@evil.lit/r\(n)'><ask xmlns='urn:test'/></iq>"
        case .answers: "<iq type='get' id='q\(n)' from='evil@evil.lit/r\(n)'><ask xmlns='urn:unknown'/></iq>"
        case .blocked:
            "<iq type='set' id='q\(n)'><block xmlns='urn:xmpp:blocking'>"
                + (n..<n + piece).map { "<item jid='s\($0)@evil.lit'/>" }.joined() + "</block></iq>"
        case .texts:
            """
            <message type='groupchat' from='room@rooms.lit/evil' id='s\(n)'>
            <subject>\(n)\(Self.marks(30_000))</subject></message>
            """
        case .capabilities, .roster: preconditionFailure("it is made of requests and answers")
        }
    }

    /// Presence with capabilities that nobody knows, and the answer to the request for them.
    private func learn(_ filled: BoundedAccount, _ n: Int) throws {
        let feature = String(repeating: "f\(n)", count: n % 100 == 0 ? 20_000 : n % 10 == 0 ? 1500 : 20)
        let info = DiscoInfo(identities: [], features: [feature])
        let verification = info.verification?.string ?? ""
        let from = "s\(n)@evil.lit/x"
        try filled.receive(["<presence from='\(from)'>\(Self.caps)'\(verification)'/></presence>"])
        let answer = info.element(node: ForeignText("urn:evil#\(verification)")).serialized()
        let id = try filled.pendingRequest(of: CapabilitiesFetched.id)
        try filled.receive(["<iq type='result' id='\(id)' from='\(from)'>\(answer)</iq>"])
        try filled.takeOutbox()
    }

    private func item(_ n: Int, isLong: Bool) -> String {
        guard isLong else { return "<item jid='s\(n)@e.lit'/>" }
        let groups = (0..<40).map { "<group>\($0)\(Self.text(300))</group>" }.joined()
        return "<item jid='s\(n)@e.lit' name='\(Self.text(2000))'>\(groups)</item>"
    }

    /// The answer to the request for the roster in a new session.
    private func list(_ filled: BoundedAccount, _ numbers: Range<Int>) throws {
        try filled.step { try filled.account.startModules(.session, in: $0) }
        let id = try filled.pendingRequest(of: RosterFetched.id)
        let items = numbers.map { item($0, isLong: $0 % 5000 == 0) }.joined()
        try filled.receive(
            ["<iq type='result' id='\(id)'><query xmlns='jabber:iq:roster' ver='v'>\(items)</query></iq>"])
    }

    private func push(_ n: Int) -> String {
        """
        <iq type='set' id='p\(n)'><query xmlns='jabber:iq:roster' ver='\(Self.text(n % 2 == 0 ? 1500 : 1000))'>
        \(item(n, isLong: n % 100 == 0))</query></iq>
        """
    }
}
