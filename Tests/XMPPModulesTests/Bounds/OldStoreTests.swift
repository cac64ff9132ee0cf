import Glibc
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPCore

@testable import XMPPAccount
@testable import XMPPModules

/// Stores of older versions, filled far beyond the bounds of today, in processes of their own: their peak of memory counts.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(10))) struct OldStoreTests {
    /// A store with the tables of an older version.
    ///
    /// - Parameter versions: How many migrations of these modules it has had; it has all of the others.
    private static func makeStore(_ path: String, _ versions: [String: Int]) throws -> HandlerStore {
        let schemas = Account.schemas.map { schema in
            Schema(
                module: schema.module.string,
                migrations: Array(schema.migrations.prefix(versions[schema.module.string] ?? .max)))
        }
        let store = try HandlerStore(
            path: path, registry: HandlerRegistry(), schemas: schemas, synchronous: .normal)
        try store.step { step in
            try step.execute(
                "INSERT INTO account(id, jid) VALUES (1, ?)", BoundedAccount.own.bare.description)
        }
        return store
    }

    private static func numbers(_ count: Int) -> String {
        "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < \(count))"
    }

    // MARK: Marks

    /// What a flood has left: three times the marks that one sender may have, twice the senders, and ids of 900 KB.
    private static let (marks, senders, long) = (3 * SeenSenders.marksEach, 2 * SeenSenders.limit, 20)

    private static func makeMarks(_ path: String) throws {
        let digest = try SeenTable.digest(
            of: Message(element: Element("message", namespace: Namespaces.client)))
        let insert =
            "INSERT INTO seen(account, peer, stanza_id, digest, seen_at) SELECT 1, "
        try makeStore(path, ["xmpp-account": 5]).step { step in
            _ = try step.execute(
                "\(numbers(marks)) \(insert) 'evil@evil.lit/r' || (n % 7), 'm' || n, ?, 100000000000 + n FROM n",
                digest)
            _ = try step.execute(
                "\(numbers(senders)) \(insert) 's' || n || '@evil.lit/x', '1', ?, 1000000 + n * 3600000 FROM n",
                digest)
            _ = try step.execute(
                "\(numbers(long)) \(insert) 'long@evil.lit/x', n || hex(zeroblob(450000)), ?, 5 FROM n",
                digest)
        }
    }

    private static func messages(_ numbers: Range<Int>) -> some Sequence<(String, String)> {
        numbers.lazy.map { ("evil@evil.lit/r\($0 % 7)", "m\($0)") }
    }

    /// Moves pieces in a process that is killed inside the step of the last one.
    private static func moveUntilKilled(_ path: String, pieces: Int) throws {
        let filled = try BoundedAccount(path, [])
        try PhysicalMemory.withinWorker {
            for _ in 0..<pieces { _ = try filled.step { try filled.account.seen.move(in: $0) } }
        }
        try filled.step { step in
            _ = try filled.account.seen.move(in: step)
            kill(getpid(), SIGKILL)
        }
    }

    @Test(
        "X20 an old store with marks far beyond the bounds is moved piece by piece, within the memory of a worker; processes that are killed in between lose no mark that the bounds keep"
    )
    func marks() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/store.db"
        try Self.makeMarks(path)
        func left() throws -> Int { try BoundedAccount(path, []).number("SELECT count(*) FROM seen") }
        var before = try left()
        #expect(before == Self.marks + Self.senders + Self.long)
        for pieces in [1, 7, 20] {
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [path = path as String, pieces = pieces as Int] in
                try Self.moveUntilKilled(path, pieces: pieces)
            }
            let after = try left()
            // The last piece was not committed.
            #expect(after < before && before - after <= pieces * 500, "\(before) \(after)")
            before = after
            let filled = try BoundedAccount(path, [])
            #expect(try filled.see(Self.messages(Self.marks - 1000..<Self.marks + 1)) == 0)
        }
        await #expect(processExitsWith: .success) { [path = path as String] in
            let filled = try BoundedAccount(path, [])
            try PhysicalMemory.withinWorker {
                while try filled.step({ try filled.account.seen.move(in: $0) }) {}
            }
        }
        let filled = try BoundedAccount(path, [])
        #expect(try left() == 0)
        let most = try filled.number("SELECT max(marks) FROM seen_sender")
        #expect((SeenSenders.marksEach...SeenSenders.marksEach + SeenSenders.piece).contains(most), "\(most)")
        #expect(
            try filled.number("SELECT sum(marks) FROM seen_sender")
                == filled.number("SELECT count(*) FROM seen_mark"))
        let known = try filled.number("SELECT count(*) FROM seen_sender")
        #expect((SeenSenders.limit...SeenSenders.limit + 2 * SeenSenders.piece).contains(known), "\(known)")
        // The newest of the sender that has most, and the senders that were heard last.
        #expect(try filled.see(Self.messages(Self.marks + 1 - SeenSenders.marksEach..<Self.marks + 1)) == 0)
        let newest = Self.senders - SeenSenders.limit + 2 * SeenSenders.piece..<Self.senders + 1
        #expect(try filled.see(newest.lazy.map { ("s\($0)@evil.lit/x", "1") }) == 0)
    }

    // MARK: Texts

    /// Fills of texts with letters of two bytes: characters are no bytes.
    private static let inserts: [(rows: Int, sql: String)] = [
        (100, "INSERT INTO subscription_request SELECT 1, 's' || n || '@evil.lit', TEXT, TEXT, n"),
        (
            100,
            "INSERT INTO room_invitation SELECT 1, 'r' || n || '@rooms.lit', 'a@b', TEXT, TEXT, TEXT, 0, n"
        ),
        (100, "INSERT INTO roster_item SELECT 1, 'c' || n || '@c.lit', TEXT, 'both', 0, 0, TEXT"),
        (
            100,
            "INSERT INTO contact_presence SELECT 1, 'c' || n || '@c.lit/x', 'c' || n || '@c.lit', NULL, TEXT, 0"
        ),
        (
            10,
            """
            INSERT INTO room(account, jid, nick, state, history, ticket, subject)
            SELECT 1, 'r' || n || '@rooms.lit', 'alice', 'left', '{}', 't', TEXT
            """
        ),
    ]

    private static func makeTexts(_ path: String) throws {
        let store = try makeStore(path, ["xmpp-roster": 1, "xmpp-rooms": 2])
        for (rows, sql) in inserts {
            let filled = sql.replacing("TEXT", with: "replace(hex(zeroblob(50000)), '0', 'ü')")
            try store.step { _ = try $0.execute("\(numbers(rows)) \(filled) FROM n") }
        }
        try store.step { _ = try $0.execute("INSERT INTO roster(account, version) VALUES (1, 'v1')") }
    }

    @Test(
        "X20 an old store whose requests, invitations, rooms, contacts and presence have texts far beyond the bounds opens within the memory of a worker, with texts of today's bounds"
    )
    func texts() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/store.db"
        try Self.makeTexts(path)
        await #expect(processExitsWith: .success) { [path = path as String] in
            // The code that opens a store does not count.
            _ = try BoundedAccount(path + ".other", [RosterModule(), RoomsModule()])
            try PhysicalMemory.withinWorker {
                let filled = try BoundedAccount(path, [RosterModule(), RoomsModule()])
                try filled.step { step in
                    try #require(try filled.account.roster.requests(in: step).count == 100)
                    try #require(try filled.account.rooms.invitations(in: step).count == 100)
                    try #require(try filled.account.roster.items(in: step).count == 100)
                }
            }
        }
        let filled = try BoundedAccount(path, [RosterModule(), RoomsModule()])
        func longest(_ column: String, _ table: String) throws -> Int {
            try filled.number("SELECT max(ifnull(length(CAST(\(column) AS BLOB)), 0)) FROM \(table)")
        }
        let words = ForeignBounds.words
        for (column, table, bound) in [
            ("status", "subscription_request", words), ("nick", "subscription_request", words),
            ("reason", "room_invitation", words), ("password", "room_invitation", 0),
            ("thread", "room_invitation", 0), ("name", "roster_item", words), ("groups", "roster_item", 2),
            ("status", "contact_presence", words), ("subject", "room", ForeignBounds.subject),
        ] {
            let length = try longest(column, table)
            #expect(length <= bound && (length > 0 || bound == 0), "\(column) of \(table): \(length)")
        }
        // The server tells the whole roster again.
        #expect(try filled.number("SELECT count(*) FROM roster WHERE version IS NULL") == 1)
    }
}
