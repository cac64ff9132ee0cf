import Handlers
@testable import XMPPAccount
import XMPPCore

/// What others can fill, how they do, and what may be there then.
enum Flood: String, CaseIterable, Codable {
    case marks, senders, invitations, subscriptionRequests, unknownPresences, presences, resources, entities
    case capabilityQueries, capabilities, occupants, openRequests, openRequestsOfOne, roster, blocked, subject

    /// How many rows may be there.
    var rows: Int {
        switch self {
        // With the message of the next wake.
        case .marks: SeenSenders.marksEach + 1
        case .senders: SeenSenders.limit + SeenSenders.piece
        case .invitations: RoomTable.invitationLimit
        case .subscriptionRequests: SubscriptionTable.maximumRequests
        case .unknownPresences: ContactPresenceTable.maximumUnknown
        case .presences: ContactPresenceTable.maximumRows
        case .resources: ContactPresenceTable.maximumResources
        case .entities: CapabilityTable.entityLimit
        case .capabilityQueries: CapabilityTable.queryLimit
        case .capabilities: CapabilityTable.limit
        case .occupants: RoomTable.occupantLimit
        case .openRequests: InboundRequestTable.maximum
        case .openRequestsOfOne: InboundRequestTable.maximumEach
        case .roster: RosterTable.maximumItems
        case .blocked: BlockingTable.maximum
        case .subject: 1
        }
    }

    /// How many times over it is filled. Each row that is refused costs a count of those that are there, so a large table is
    /// filled less often.
    var times: Int {
        switch self {
        case .presences, .entities, .occupants: 3
        case .roster: 2
        default: 10
        }
    }

    /// The table that is filled.
    var table: String {
        switch self {
        case .marks: "seen_mark"
        case .senders: "seen_sender"
        case .invitations: "room_invitation"
        case .subscriptionRequests: "subscription_request"
        case .unknownPresences, .presences, .resources: "contact_presence"
        case .entities: "entity"
        case .capabilityQueries: "capability_query"
        case .capabilities: "capability"
        case .occupants: "occupant"
        case .openRequests, .openRequestsOfOne: "inbound_request"
        case .roster: "roster_item"
        case .blocked: "blocked"
        case .subject: "room"
        }
    }

    /// How many bytes the columns of a row may have together that others fill, with the addresses of this flood.
    var bytesOfRow: Int {
        switch self {
        case .marks, .senders: 16
        case .invitations: 3 * 1024 + 200
        case .subscriptionRequests: 2 * 1024 + 100
        case .unknownPresences, .presences, .resources: 1024 + 100
        case .capabilities: 16_384 + 100
        case .roster: 1024 + 32 * 260 + 100
        case .subject: 8192 + 100
        case .openRequests, .openRequestsOfOne: 1024 + 100
        case .entities, .capabilityQueries, .occupants, .blocked: 200
        }
    }

    /// The columns that others fill.
    var columns: [String] {
        switch self {
        case .marks: ["mark"]
        case .senders: ["digest"]
        case .invitations: ["room", "by", "reason", "password", "thread"]
        case .subscriptionRequests: ["jid", "status", "nick"]
        case .unknownPresences, .presences, .resources: ["jid", "show", "status"]
        case .entities: ["jid", "verification"]
        case .capabilityQueries: ["verification"]
        case .capabilities: ["verification", "info"]
        case .occupants: ["nick", "jid"]
        case .openRequests, .openRequestsOfOne: ["peer", "stanza_id"]
        case .roster: ["jid", "name", "groups"]
        case .blocked: ["jid"]
        case .subject: ["subject"]
        }
    }

    var modules: [any AccountModule] {
        switch self {
        // Without a roster everybody is asked what their client understands.
        case .entities, .capabilityQueries: [DiscoModule()]
        default: [DiscoModule(), RosterModule(), RoomsModule(), BlockingModule()]
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
        case .openRequests, .openRequestsOfOne:
            try filled.step { step in
                try filled.account.listeners.set(
                    ListenerTable.requests, key: ListenerTable.key("ask", "urn:test"),
                    to: BoundedAccount.Silent().durable, in: step)
            }
        case .subject:
            try filled.step { step in
                let (room, table) = (try JID("room@rooms.lit"), filled.account.rooms.table)
                try table.want(
                    room, nick: "alice", password: nil, history: .usual, configures: false, ticket: "t",
                    in: step)
                try table.setJoined(room, nick: "alice", liveTime: 0, in: step)
            }
        default: break
        }
    }

    /// A text of many bytes that is one character.
    private static func marks(_ bytes: Int) -> String {
        "e" + String(repeating: "\u{301}", count: (bytes - 1) / 2)
    }

    private static func text(_ bytes: Int) -> String { String(repeating: "x", count: bytes) }

    /// One in ten is that long.
    private static func marks(_ bytes: Int, _ n: Int) -> String { n % 10 == 0 ? marks(bytes) : "short" }

    /// The stanza with a number; nil where the flood is made by other means.
    private func stanza(_ n: Int) -> String? {
        switch self {
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
        case .resources:
            "<presence from='c1@contacts.lit/\(n)'><status>\(Self.marks(4000, n))</status></presence>"
        case .capabilityQueries:
            """
            <presence from='evil@evil.lit/x'><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:evil'
            ver='version \(n)'/></presence>
            """
        case .openRequests:
            "<iq type='get' id='q' from='s\(n)@evil.lit'><ask xmlns='urn:test'/></iq>"
        case .openRequestsOfOne:
            "<iq type='get' id='q\(n)' from='evil@evil.lit/r\(n)'><ask xmlns='urn:test'/></iq>"
        case .subject:
            """
            <message type='groupchat' from='room@rooms.lit/evil' id='s\(n)'>
            <subject>\(n)\(Self.marks(30_000))</subject></message>
            """
        default: nil
        }
    }

    /// Makes a part of the flood.
    func fill(_ filled: BoundedAccount, _ numbers: Range<Int>) throws {
        if stanza(0) != nil {
            try filled.receive(numbers.lazy.compactMap { stanza($0) })
            return
        }
        for start in stride(from: numbers.lowerBound, to: numbers.upperBound, by: 500) {
            try fillTable(filled, start..<min(start + 500, numbers.upperBound))
        }
    }

    private func fillTable(_ filled: BoundedAccount, _ numbers: Range<Int>) throws {
        switch self {
        case .marks:
            try filled.see(numbers.lazy.map { ("evil@evil.lit/r\($0)", "id\($0)") })
        case .blocked:
            let addresses = try numbers.map { try JID("s\($0)@evil.lit") }
            try filled.step { try BlockingTable(account: filled.id).add(addresses, in: $0) }
        case .senders: try filled.see(numbers.lazy.map { ("s\($0)@evil.lit/x", "1") })
        default: try filled.step { step in for n in numbers { try fillRow(filled.account, n, in: step) } }
        }
    }

    private func fillRow(_ account: Account, _ n: Int, in step: borrowing Step) throws {
        let jid = try JID("s\(n)@evil.lit")
        switch self {
        case .capabilities:
            let feature = String(repeating: "f\(n)", count: n % 1000 == 0 ? 20_000 : 20)
            try CapabilityTable(account: account.id).learn(
                "version \(n)", DiscoInfo(identities: [], features: [feature]), in: step)
        case .presences:
            let resource = try JID("c\(n % 500)@contacts.lit/\(n / 500)")
            let presence = ContactPresence(jid: resource, show: nil, status: "away", priority: 0)
            _ = try ContactPresenceTable(account: account.id).set(presence, in: step)
        case .entities:
            _ = try CapabilityTable(account: account.id).set(
                JID("s\(n)@evil.lit/x"), "q07IKJEyjvHSyhy//CH0CxmKi8w=", in: step)
        case .occupants:
            let occupant = RoomOccupant(nick: "n\(n)", jid: jid, affiliation: .none, role: .visitor)
            _ = try account.rooms.table.set(occupant, of: JID("room@rooms.lit"), in: step)
        case .roster:
            let isLong = n % 1000 == 0
            let item = try Element(
                parsing: """
                    <item xmlns='jabber:iq:roster' jid='\(jid)' name='\(Self.text(isLong ? 2000 : 2))'>\
                    \((0..<(isLong ? 40 : 1)).map { "<group>\($0)\(Self.text(isLong ? 300 : 3))</group>" }.joined())</item>
                    """)
            if let item = RosterItem(item) { _ = try RosterTable(account: account.id).set(item, in: step) }
        default: break
        }
    }
}
