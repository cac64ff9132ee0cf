import Handlers
import TestServers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules

/// What a program shows, read without the write lock.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct ReadingTests {
    private static let juliet = try! JID("juliet@capulet.example")  // A constant that is an address.
    private static let room = try! JID("balcony@rooms.example")  // The same.
    private static let push = try! JID("push.example")  // The same.

    /// One row or more for every list that an account shows.
    private static let rows = [
        """
        INSERT INTO roster_item(account, jid, name, subscription, ask, approved, groups)
        VALUES (1, 'juliet@capulet.example', 'Juliet', 'both', 0, 0, '["Verona"]')
        """,
        "INSERT INTO roster(account, version, versioned, loaded) VALUES (1, 'v7', 1, 1)",
        """
        INSERT INTO contact_presence(account, jid, bare, priority)
        VALUES (1, 'juliet@capulet.example/balcony', 'juliet@capulet.example', 1)
        """,
        "INSERT INTO subscription_request(account, jid, received_at) VALUES (1, 'nurse@capulet.example', 1)",
        "INSERT INTO blocked(account, jid) VALUES (1, 'paris@verona.example')",
        """
        INSERT INTO delivery(account, stanza_id, peer, recipient, sent_at, tries, wait)
        VALUES (1, 'm1', 'juliet@capulet.example', 'juliet@capulet.example', 1, 1, 1)
        """,
        "INSERT INTO push_registration(account, service, node, asked) VALUES (1, 'push.example', 'n', 'a')",
        "INSERT INTO archive(account, jid, state, last_id, last_at) VALUES (1, 'alice@example.test', 0, 'l', 1)",
        """
        INSERT INTO room(account, jid, nick, state, history, ticket)
        VALUES (1, 'balcony@rooms.example', 'alice', 'wanted', '{"usual":{}}', '')
        """,
        """
        INSERT INTO occupant(account, room, nick, affiliation, role)
        VALUES (1, 'balcony@rooms.example', 'romeo', 'member', 'participant')
        """,
        """
        INSERT INTO room_invitation(account, room, direct, received_at) VALUES (1, 'garden@rooms.example', 1, 1)
        """,
        "INSERT INTO login(account, agent, managing) VALUES (1, 'agent', 1)",
    ]

    /// Everything that an account shows, one line for each function.
    private func shown(_ account: Account, in source: borrowing some Readable) throws -> [String] {
        [
            "\(try account.roster.items(in: source).map(\.jid))",
            "\(try account.roster.item(for: Self.juliet, in: source)?.name?.string ?? "-")",
            "\(try account.roster.version(in: source)?.string ?? "-")",
            "\(try account.roster.presence(of: Self.juliet, in: source).map(\.jid))",
            "\(try account.roster.requests(in: source).map(\.jid))",
            "\(try account.blocking.list(in: source))",
            "\(try account.blocking.isBlocked(JID("paris@verona.example"), in: source))",
            "\(try account.chat.delivery(of: "m1", in: source)?.peer.description ?? "-")",
            "\(try account.chat.deliveries(to: Self.juliet, in: source).map(\.id.string))",
            "\(try account.push.registrations(in: source).map(\.service))",
            "\(try account.push.state(of: Self.push, node: "n", in: source).map { "\($0)" } ?? "-")",
            "\(try account.archive.progress(in: source).map(\.archive))",
            "\(try account.rooms.all(in: source).map(\.jid))",
            "\(try account.rooms.room(Self.room, in: source)?.nick.string ?? "-")",
            "\(try account.rooms.occupants(of: Self.room, in: source).map(\.nick.string))",
            "\(try account.rooms.invitations(in: source).map(\.room))",
            "\(try account.knownInfo(of: Self.juliet, in: source)?.features.count ?? 0)",
            "\(try account.supportsStreamManagement(in: source))",
            "\(try account.isFromOwnAccount(JID("alice@example.test"), in: source))",
        ]
    }

    private static let expected = [
        "[juliet@capulet.example]", "Juliet", "v7", "[juliet@capulet.example/balcony]",
        "[nurse@capulet.example]", "[paris@verona.example]", "true", "juliet@capulet.example", #"["m1"]"#,
        "[push.example]", "pending", "[alice@example.test]", "[balcony@rooms.example]", "alice",
        #"["romeo"]"#,
        "[garden@rooms.example]", "0", "true", "true",
    ]

    /// Lends an account without a server, whose store holds ``rows``.
    private func withAccount(_ body: (Account, String) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let path = folder.path + "/store.db"
        let store = try HandlerStore(
            path: path, registry: HandlerRegistry(), schemas: Account.schemas, synchronous: .normal,
            busyTimeout: .zero)
        var configuration = try AccountConfiguration(
            jid: JID("alice@example.test"), password: "none", server: nil)
        configuration.modules = [
            RosterModule(), BlockingModule(), ChatModule(), PushModule(), ArchiveModule(), RoomsModule(),
            DiscoModule(),
        ]
        let account = try Account(configuration, store: store)
        for row in Self.rows { try store.change(row) }
        try await body(account, path)
        await account.close()
    }

    @Test("H32 contacts, rooms, chats and the rest are shown beside a process that was stopped inside a step")
    func besideFrozenWriter() async throws {
        try await withAccount { account, path in
            let writer = try FrozenProcess(
                BuiltProduct.path("HandlersTestProgram"), ["hold", path, "DELETE FROM roster_item"],
                saying: "holding")
            defer { writer.kill() }
            #expect(try account.store.read { try shown(account, in: $0) } == Self.expected)
            #expect(try !account.canResume())
            #expect(writer.isStopped)
            #expect(throws: HandlerError.self) { try account.store.step { _ in } }
            #expect(try writer.thaw() == "committed")
            #expect(try account.store.read { try account.roster.items(in: $0) } == [])
        }
    }

    @Test("H32 what reads in a step reads the same without the write lock")
    func sameAsStep() async throws {
        try await withAccount { account, _ in
            let inStep = try account.store.step { try shown(account, in: $0) }
            let inRead = try account.store.read { try shown(account, in: $0) }
            #expect(inStep == Self.expected)
            #expect(inRead == inStep)
        }
    }
}
