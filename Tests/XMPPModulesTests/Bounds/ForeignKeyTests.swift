import Handlers
import IQTracker
import TestSupport
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount
@testable import XMPPModules

/// What is too long for an index of PostgreSQL is refused before it is written, on both engines. `StoredKeyTests` shows that all that is
/// written fits.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct ForeignKeyTests {
    /// An address of 1023, 637 and 1023 bytes: the labels of its domain have 53 letters of three bytes, and 60 bytes in DNS.
    private static let long: JID = {
        let part = String(repeating: "a", count: 1023)
        let domain = Array(repeating: String(repeating: "中", count: 53), count: 4).joined(separator: ".")
        return try! JID("\(part)@\(domain).example/\(part)")  // A constant that is an address.
    }()
    /// One that is just short enough.
    private static let fits: JID = {
        let rest = ForeignBounds.key - long.bare.description.utf8.count - 1
        return try! long.bare.with(resource: String(repeating: "a", count: rest))  // The same.
    }()

    private let folder: TemporaryFolder
    private let filled: BoundedAccount

    init() throws {
        folder = try TemporaryFolder()
        filled = try BoundedAccount(
            folder.path + "/store.db",
            [DiscoModule(), RosterModule(), RoomsModule(), BlockingModule(), ChatModule(), PushModule()])
    }

    private func rows(_ table: String) throws -> Int { try filled.number("SELECT count(*) FROM \(table)") }

    @Test("X20 the addresses of these tests are on both sides of the bound")
    func addresses() {
        #expect(Self.fits.description.utf8.count == ForeignBounds.key)
        #expect(Self.long.description.utf8.count > 2685)
        #expect(ForeignBounds.fitKey(Self.fits) && !ForeignBounds.fitKey(Self.fits, "x"))
    }

    @Test(
        "X20 presence with an address that is too long for a key is reported, and not kept with what its client understands"
    )
    func presence() throws {
        let caps = "<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:n' ver='v'/>"
        try filled.step { step in
            let table = RosterTable(account: filled.id)
            #expect(try table.replace(with: [RosterItem(Self.long.bare, subscription: .both)], in: step))
            try table.setLoaded(true, in: step)
        }
        let ignored = try reports {
            try filled.receive([Self.long, Self.fits].map { "<presence from='\($0)'>\(caps)</presence>" })
        }
        #expect(try rows("contact_presence") == 1 && rows("entity") == 1)
        #expect(ignored == ["presence"])
        try filled.receive(["<presence from='\(Self.fits)' type='unavailable'/>"])
        #expect(try rows("contact_presence") == 0 && rows("entity") == 0)
    }

    @Test("X20 a request whose address and id are too long for a key gets the answer resource-constraint")
    func requests() throws {
        try filled.step { step in
            try filled.account.listeners.set(
                ListenerTable.requests, key: ListenerTable.key("ask", "urn:test"),
                to: BoundedAccount.Silent().durable, in: step)
        }
        let from = Self.long.bare
        let rest = ForeignBounds.key - from.description.utf8.count
        for id in [rest, rest + 1].map({ String(repeating: "i", count: $0) }) {
            try filled.receive(["<iq type='get' id='\(id)' from='\(from)'><ask xmlns='urn:test'/></iq>"])
        }
        #expect(try rows("inbound_request") == 1)
        let answer = try filled.step { step in
            try step.all("SELECT xml FROM outbox") { String(decoding: $0.blob(0), as: UTF8.self) }
        }
        #expect(answer.count == 1 && answer[0].contains("<resource-constraint"))
    }

    @Test(
        "X20 items of the roster and blocked addresses that are too long for a key are left out, the others kept"
    )
    func lists() throws {
        try filled.step { step in
            let (roster, blocked) = (RosterTable(account: filled.id), BlockingTable(account: filled.id))
            #expect(try !roster.replace(with: [Self.long, Self.fits].map { RosterItem($0) }, in: step))
            #expect(try !roster.set(RosterItem(Self.long), in: step))
            #expect(try roster.items(in: step).map(\.jid) == [Self.fits])
            try blocked.add([Self.long, Self.fits], in: step)
            #expect(try blocked.all(in: step) == [Self.fits])
        }
    }

    @Test(
        "X20 an occupant whose nickname is too long beside the room's address is not kept, and one that takes such a name is gone"
    )
    func occupants() throws {
        let room = Self.long.bare
        let fits = ForeignText(String(repeating: "n", count: ForeignBounds.key - room.description.utf8.count))
        try filled.step { step in
            let table = filled.account.rooms.table
            func occupant(_ nick: ForeignText) -> RoomOccupant {
                RoomOccupant(nick: nick, jid: nil, affiliation: .none, role: .participant)
            }
            #expect(try table.set(occupant(fits), of: room, in: step))
            #expect(try !table.set(occupant("\(fits)n"), of: room, in: step))
            #expect(try table.occupants(of: room, in: step).map(\.nick) == [fits])
            try table.rename(fits, to: "\(fits)n", of: room, in: step)
            #expect(try table.occupants(of: room, in: step).isEmpty)
        }
    }

    @Test("X20 ids and nodes of the program that are too long for a key are refused when they are sent")
    func ofProgram() throws {
        func code(_ body: (borrowing Step) throws -> Void) -> ErrorCode<AccountError>? {
            do {
                try filled.step(body)
                return nil
            } catch { return (error as? AccountError)?.code }
        }
        let (account, long) = (filled.account, String(repeating: "i", count: 1025))
        let peer = try JID("juliet@capulet.lit")
        #expect(
            code { _ = try account.chat.send(Message(to: peer, id: long, body: "x"), in: $0) }
                == .invalidStanza)
        #expect(
            code {
                let node = String(repeating: "n", count: ForeignBounds.key)
                try account.push.enable(PushRegistration(service: peer, node: node), in: $0)
            } == .invalidStanza)
        #expect(
            code {
                try account.rooms.table.want(
                    Self.long.bare, nick: "a", password: nil, history: .usual, configures: false, ticket: "t",
                    in: $0)
            } == nil)
        let id = String(repeating: "i", count: ForeignBounds.key - Self.long.bare.description.utf8.count)
        #expect(
            code {
                _ = try account.rooms.send(
                    Message(to: Self.long.bare, id: id + "i", body: "x"), to: Self.long.bare, in: $0)
            } == .invalidStanza)
        #expect(
            code {
                _ = try account.rooms.send(
                    Message(to: Self.long.bare, id: id, body: "x"), to: Self.long.bare, in: $0)
            } == nil)
        #expect(try rows("room_message") == 1 && rows("delivery") == 0 && rows("push_registration") == 0)
    }

    @Test(
        "X20 a client is not asked what it understands if the question would repeat more than every server takes"
    )
    func question() throws {
        let quotes = String(repeating: "&apos;", count: 1023)
        // Without a roster everybody is asked.
        let filled = try BoundedAccount(folder.path + "/other.db", [DiscoModule()])
        for (number, from) in ["a@b.lit/\(quotes)", "a@b.lit/short"].enumerated() {
            for node in [String(repeating: "n", count: 300_000), quotes, "urn:n"] {
                try filled.receive([
                    "<presence from='\(from)'><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='\(node)' ver='v\(number)\(node.count)'/></presence>"
                ])
            }
        }
        let sizes = try filled.step { try $0.all("SELECT length(xml) FROM outbox") { $0.integer(0) } }
        #expect(sizes.count == 5 && sizes.allSatisfy { $0 < 10_000 }, "\(sizes)")
    }

    /// The kinds of the stanzas that are reported as ignored meanwhile.
    private func reports(_ body: () throws -> Void) throws -> [String] {
        let names = Kept<[String]>([])
        let hub = filled.account.hub
        let listener: AsyncStream<Int> = hub.listen { event in
            if case .ignored(let element, _) = event { names.withLock { $0.append(element.name.string) } }
            return nil
        }
        try body()
        withExtendedLifetime(listener) {}
        return names.withLock { $0 }
    }
}
