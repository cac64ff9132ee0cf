import AccountTestSupport
import Handlers
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount

/// Which of several messages are one, by the ids that the own server, rooms and senders give them.
@Suite(.ownThread, .engines(.sqlite, .postgres)) struct SeenMessagesTests {
    private static let own = "romeo@example.net"
    private static let room = "plaza@conference.example.net"
    private static let peer = "monitor@example.org/bot"

    /// A message and the way in which it came.
    struct Arrival: Sendable {
        enum Way: Sendable { case live, carbon, archive(String), roomArchive(String) }
        var way = Way.live
        var from = SeenMessagesTests.peer
        var id: String? = "1"
        var body = "down"
        /// The stanza ids, by who gave them.
        var ids: [String: String] = [:]
        var isNew: Bool

        init(
            _ way: Way = .live, from: String = SeenMessagesTests.peer, id: String? = "1",
            body: String = "down", ids: [String: String] = [:], isNew: Bool
        ) {
            (self.way, self.from, self.id, self.body) = (way, from, id, body)
            (self.ids, self.isNew) = (ids, isNew)
        }

        func inbound() throws -> InboundMessage {
            let stanzaIDs = ids.sorted { $0.key < $1.key }.map {
                Element("stanza-id", namespace: Namespaces.sid, attributes: ["by": $0.key, "id": $0.value])
            }
            let isInRoom = from.hasPrefix(SeenMessagesTests.room)
            let message = Message(
                to: try JID(SeenMessagesTests.own), from: try JID(from), type: isInRoom ? .groupchat : .chat,
                id: id, body: body, children: stanzaIDs)
            let time = Timestamp(milliseconds: 0)
            let source: MessageReceived.Source =
                switch way {
                case .live: .direct
                case .carbon: .carbonReceived
                case .archive(let id):
                    .archive(try JID(SeenMessagesTests.own), id: ForeignText(id), storedAt: time)
                case .roomArchive(let id):
                    .archive(try JID(SeenMessagesTests.room), id: ForeignText(id), storedAt: time)
                }
            return InboundMessage(message: message, source: source)
        }
    }

    private static func named(_ id: String) -> [String: String] { [own: id] }
    private static func inRoom(_ id: String) -> [String: String] { [room: id] }

    struct Case: Sendable, CustomStringConvertible {
        let description: String
        let arrivals: [Arrival]
    }

    private static let cases = [
        Case(
            description: "one id and text for five alarms",
            arrivals: ["down", "up", "down", "up", "down"].enumerated().map { number, body in
                Arrival(body: body, ids: named("A\(number)"), isNew: true)
            } + [Arrival(.archive("A2"), isNew: false), Arrival(body: "up", ids: named("A3"), isNew: false)]),
        Case(
            description: "live without stanza id, then out of the archive",
            arrivals: [
                Arrival(isNew: true), Arrival(isNew: false), Arrival(.archive("A1"), isNew: false),
                Arrival(.archive("A2"), isNew: true), Arrival(.archive("A1"), isNew: false),
                Arrival(.archive("A3"), isNew: true),
            ]),
        Case(
            description: "a copy that has lost its stanza id",
            arrivals: [
                Arrival(body: "down", ids: named("A1"), isNew: true), Arrival(.carbon, isNew: false),
                Arrival(body: "down", ids: named("A2"), isNew: true), Arrival(isNew: false),
            ]),
        Case(
            description: "entries of one archive, then live",
            arrivals: [
                Arrival(.archive("A1"), isNew: true), Arrival(.archive("A2"), isNew: true),
                Arrival(.archive("A3"), isNew: true),
                Arrival(.carbon, body: "down", ids: named("A2"), isNew: false),
            ]),
        Case(
            description: "empty ids",
            arrivals: [
                Arrival(id: "", body: "down", ids: named("A1"), isNew: true),
                Arrival(id: "", body: "down", ids: named("A2"), isNew: true),
                Arrival(id: "", isNew: true), Arrival(id: "", isNew: true),
                Arrival(id: "", body: "down", ids: named("A2"), isNew: false),
            ]),
        Case(
            description: "stanza ids of strangers",
            arrivals: [
                Arrival(body: "down", ids: ["example.org": "A1"], isNew: true),
                Arrival(body: "down", ids: ["example.org": "A2"], isNew: false),
                Arrival(body: "up", ids: [room: "A1"], isNew: true),
                Arrival(body: "up", ids: [room: "A2"], isNew: false),
            ]),
        Case(
            description: "a room whose archive has ids of its own, and its copies both",
            arrivals: [
                Arrival(from: room + "/bot", ids: inRoom("S1"), isNew: true),
                Arrival(.roomArchive("A1"), from: room + "/bot", ids: inRoom("S1"), isNew: false),
                Arrival(.roomArchive("A2"), from: room + "/bot", ids: inRoom("S2"), isNew: true),
                Arrival(from: room + "/bot", ids: inRoom("S2"), isNew: false),
                Arrival(.roomArchive("A3"), from: room + "/bot", ids: inRoom("A3"), isNew: true),
            ]),
        Case(
            description: "a room's ids, live, in its archive and in the account's",
            arrivals: [
                Arrival(from: room + "/bot", body: "down", ids: inRoom("R1"), isNew: true),
                Arrival(from: room + "/bot", body: "down", ids: inRoom("R2"), isNew: true),
                Arrival(from: room + "/bot", body: "down", ids: inRoom("R1"), isNew: false),
                Arrival(.roomArchive("R2"), from: room + "/bot", isNew: false),
                Arrival(.roomArchive("R3"), from: room + "/bot", isNew: true),
                Arrival(.archive("A1"), from: room + "/bot", body: "down", ids: inRoom("R1"), isNew: false),
                Arrival(.archive("A4"), from: room + "/bot", body: "down", ids: inRoom("R4"), isNew: true),
                Arrival(.archive("A4"), from: room + "/bot", isNew: false),
                Arrival(.archive("A2"), from: room + "/bot", isNew: false),
                Arrival(from: room + "/bot", body: "down", ids: named("A9"), isNew: false),
            ]),
        Case(
            description: "what the account sends to itself has two entries in Prosody's archive",
            arrivals: [
                Arrival(from: own + "/other", body: "note", ids: named("A2"), isNew: true),
                Arrival(.archive("A1"), from: own + "/other", body: "note", isNew: false),
                Arrival(.archive("A2"), from: own + "/other", body: "note", isNew: false),
            ]),
        Case(
            description: "no id at all",
            arrivals: [
                Arrival(id: nil, isNew: true), Arrival(id: nil, isNew: true),
                Arrival(id: nil, body: "down", ids: named("A1"), isNew: true),
                Arrival(.archive("A1"), id: nil, isNew: false),
            ]),
    ]

    private static var seen: SeenTable { SeenTable(account: 1) { _ in NeededMarks() } }

    @Test(
        "X31 ids of the own server and of rooms decide; an id of the sender decides without them",
        arguments: cases)
    func decides(example: Case) async throws {
        let seen = try await InboundStepTests.withTables { _, step in
            let own = try JID(Self.own)
            return try example.arrivals.map { try Self.seen.isNew($0.inbound(), own: own, in: step) }
        }
        #expect(seen == example.arrivals.map(\.isNew))
    }

    @Test("X31 a message from the account's server, which leaves out the sender, is recognized as any other")
    func absentSender() async throws {
        let seen = try await InboundStepTests.withTables { _, step in
            let xml = "<message to='\(Self.own)' id='1'><body>down</body></message>"
            let message = InboundMessage(
                message: try Message(element: Element(parsing: xml, defaultNamespace: Namespaces.client)))
            return try (0..<2).map { _ in try Self.seen.isNew(message, own: JID(Self.own), in: step) }
        }
        #expect(seen == [true, false])
    }

    @Test("X31 a deferred message comes again, and others with its id and text do not stand in for it")
    func deferred() async throws {
        let seen = try await InboundStepTests.withTables { _, step in
            let own = try JID(Self.own)
            let (first, second) = (
                try Arrival(body: "down", ids: Self.named("A1"), isNew: true).inbound(),
                try Arrival(body: "down", ids: Self.named("A2"), isNew: true).inbound()
            )
            var seen = [try Self.seen.isNew(first, own: own, in: step)]
            try Self.seen.postpone(first, own: own, number: 7, in: step)
            for message in [second, first, first, second] {
                seen.append(try Self.seen.isNew(message, own: own, in: step))
            }
            return seen
        }
        #expect(seen == [true, true, true, false, false])
    }
}
