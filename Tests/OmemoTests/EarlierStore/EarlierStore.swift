import CSQLite
import Foundation
@testable import Handlers
@testable import Omemo
import Platform
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
@testable import XMPPModules

/// Writes the fixture: a store with unfinished work of every kind, and a message for its device.
///
/// `EARLIER_STORE=write swift test --filter EarlierStoreTests.rows` writes it with the program of that day. The fixture in
/// the repository is of the program before columns and tables were renamed. Never write it again for a change of the
/// schema: what a later program does with an old store is what the tests look at.
enum EarlierStore {
    static let (own, friend, stranger) = ("juliet@localhost", "romeo@localhost", "mercutio@localhost")
    /// When it was written, in milliseconds since 1970; clocks of the tests go on from there.
    static let writtenAt: Int64 = 1_763_000_000_000

    private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
    private static let (dump, message) = (
        folder.appending(path: "store.sql"), folder.appending(path: "message.xml")
    )

    // MARK: Reading

    /// Makes the database of the fixture. It counts as lying where it always lay, not as a copy.
    static func restore(to path: String) throws {
        var database: OpaquePointer?
        try #require(sqlite3_open(path, &database) == SQLITE_OK)
        defer { sqlite3_close(database) }
        let script = try String(contentsOf: dump, encoding: .utf8)
        let file = try #require(FileNumber.of(path))
        let result = sqlite3_exec(
            database, "\(script)\nUPDATE place SET inode = \(file); PRAGMA journal_mode = WAL;", nil, nil, nil
        )
        try #require(result == SQLITE_OK, "\(String(cString: sqlite3_errmsg(database)))")
    }

    /// How many rows each table of the fixture has.
    static func rows() throws -> [String: Int] {
        let script = try String(contentsOf: dump, encoding: .utf8)
        var rows: [String: Int] = [:]
        for line in script.split(separator: "\n") where line.hasPrefix("INSERT INTO \"") {
            rows[String(line.split(separator: "\"")[1]), default: 0] += 1
        }
        return rows
    }

    /// What Romeo wrote, encrypted for the device of the store before it was left.
    static func messageOfRomeo() throws -> Element {
        try Element(
            parsing: String(contentsOf: message, encoding: .utf8), defaultNamespace: Namespaces.client)
    }

    // MARK: Writing

    static func write() async throws {
        EarlierApp.isWriting.withLock { $0 = true }
        defer { EarlierApp.isWriting.withLock { $0 = false } }
        let world = World()
        world.clock.now = writtenAt
        let juliet = try world.add("\(own)/balcony", handlers: EarlierApp.handlers)
        let romeo = try world.add("\(friend)/orchard")
        try world.settle()
        try juliet.send("one", to: friend)
        try world.settle()
        try romeo.send("two", to: own)
        try world.settle()
        _ = try juliet.heard()
        try fill(juliet)
        juliet.isOnline = false
        romeo.sent = []
        try romeo.send("three", to: own)
        try world.settle()
        let three = try #require(romeo.sent.last)
        // A device whose keys were not fetched yet.
        try juliet.send("four", to: stranger)
        let runner = try HandlerRunner(juliet.store)
        try runner.start()
        try await eventually("a handler is leased") {
            try juliet.store.number("SELECT count(*) FROM handler WHERE lease IS NOT NULL") == 1
        }
        let script = try juliet.store.read { try Self.script(of: $0) }
        EarlierApp.isWriting.withLock { $0 = false }
        runner.close()
        await world.close()
        try script.write(to: dump, atomically: true, encoding: .utf8)
        try three.serialized().write(to: message, atomically: true, encoding: .utf8)
    }

    private static func fill(_ juliet: World.Client) throws {
        let account = juliet.account
        try juliet.step { step in
            try account.listen(as: "earlier", EarlierApp.Received().durable, in: step)
            try openSession(of: account.id, in: step)
        }
        for (id, body) in [("known", "seen"), ("wait", "later"), ("call", "fail")] {
            try juliet.offline.receive(
                "<message from='\(friend)/orchard' id='\(id)' type='chat'><body>\(body)</body></message>")
        }
        try juliet.step { step in
            // Stanza 4 of 5 is deferred, so the session resumes with h = 3.
            try step.execute("UPDATE deferred SET number = 4")
            try step.execute("UPDATE seen_mark SET number = 4 WHERE number IS NOT NULL")
            try bindHandlers(in: step)
            try send(account, "carried", in: step)
            // Never written to a stream.
            try step.execute("UPDATE session SET open_number = NULL")
            try send(account, "offline", in: step)
            try fillModules(account.id, in: step)
            try step.post(EarlierApp.News(text: "not read yet"))
        }
    }

    private static func openSession(of account: Int64, in step: borrowing Step) throws {
        try step.execute(
            """
            UPDATE session SET open_number = number, managed = 1, resumption_id = 'earlier-1', resumable = 1, max = 600,
                alive_at = ?, full_jid = '\(own)/balcony', received = 5, acknowledged = 3, connected_time = 5000,
                bound_count = 1, resumed_count = 2
            WHERE account = ?
            """, writtenAt, account)
    }

    private static func bindHandlers(in step: borrowing Step) throws {
        try step.schedule(EarlierApp.Tick(name: "due").durable, after: .seconds(1))
        try step.schedule(EarlierApp.Tick(name: "far").durable, after: .seconds(86_400_000))
        try step.schedule(
            EarlierApp.Tick(name: "periodic").durable, after: .seconds(86_400_000), every: .seconds(60))
        try step.bind(
            EarlierApp.Job(name: "waiting").durable.orElse(EarlierApp.Instead(name: "waiting").durable))
        try step.bind(
            EarlierApp.Job(name: "expiring").durable.orElse(EarlierApp.Instead(name: "expiring").durable),
            timeout: .milliseconds(100))
        try step.end(step.bind(EarlierApp.Patient().durable), .result, with: EarlierApp.Work(n: 1))
        try step.end(step.bind(EarlierApp.Quarantined().durable), .result, with: EarlierApp.Work(n: 2))
        try step.end(step.bind(EarlierApp.Parked().durable), .result, with: EarlierApp.Work(n: 3))
        try step.end(step.bind(EarlierApp.Leased().durable), .result, with: EarlierApp.Work(n: 4))
        try step.execute(
            "INSERT INTO dropped_call(name, calls, bytes, last_at) VALUES ('earlier.received', 3, 40, 5)")
    }

    private static func send(_ account: Account, _ name: String, in step: borrowing Step) throws {
        let ping = Element("ping", namespace: Namespaces.ping)
        try account.send(
            .iq(IQ(type: .get, to: JID("\(friend)/orchard"), id: "ask-\(name)", payload: ping)),
            then: EarlierApp.Answered(name: name).durable,
            orElse: EarlierApp.Instead(name: name).durable, in: step)
        try account.send(
            Message(to: JID(friend), id: "tell-\(name)", body: name),
            acknowledged: EarlierApp.Acknowledged(name: name).durable, in: step)
    }

    private static func fillModules(_ account: Int64, in step: borrowing Step) throws {
        for sql in [
            """
            INSERT INTO room(account, jid, nick, state, history, ticket, was_joined, joined_at, last_time)
            VALUES (?1, 'capulets@rooms.localhost', 'juliet', 'joined', '{}', 't1', 1, 1762999000000, 1762999900000)
            """,
            "INSERT INTO occupant VALUES (?1, 'capulets@rooms.localhost', 'nurse', NULL, 'member', 'participant')",
            "INSERT INTO room_message(account, room, stanza_id, xml, ticket) VALUES (?1, 'capulets@rooms.localhost', 'said', '<message to=''capulets@rooms.localhost'' id=''said'' type=''groupchat''><body>hello</body></message>', NULL)",
            "INSERT INTO roster(account, version, versioned, loaded) VALUES (?1, 'v7', 1, 1)",
            "INSERT INTO roster_item VALUES (?1, '\(friend)', 'Romeo', 'both', 0, 0, '[\"lovers\"]')",
            "INSERT INTO subscription_request VALUES (?1, 'paris@localhost', 'please', 'Paris', 1762999000000)",
            "INSERT INTO archive(account, jid, last_id, last_at, state) VALUES (?1, '\(own)', 'a17', 1762999000000, 4)",
            "INSERT INTO push_registration(account, service, node, options, state) VALUES (?1, 'push.localhost', 'n1', NULL, 1)",
            "INSERT INTO login(account, agent, pinned, iterations) VALUES (?1, 'agent-1', NULL, 4096)",
            "INSERT INTO delivery(account, stanza_id, peer, recipient, sent_at, tries, wait) VALUES (?1, 'tell-carried', '\(friend)', '\(friend)', 1762999000000, 3, 60000)",
        ] { try step.execute(sql, account) }
    }

    // MARK: The script

    /// Every table with its rows, as SQL.
    private static func script(of source: borrowing Snapshot) throws -> String {
        let id =
            try source.first("PRAGMA application_id") { (row) throws(HandlerError) in row.integer(0) } ?? 0
        let objects = try source.all(
            "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%'"
        ) { (row) throws(HandlerError) in (type: row.text(0), name: row.text(1), sql: row.text(2)) }
        var lines = ["PRAGMA application_id = \(id);", "BEGIN;"]
        lines += objects.map { $0.sql + ";" }
        for table in ["sqlite_sequence"] + objects.filter({ $0.type == "table" }).map(\.name) {
            let columns = try source.all("SELECT quote(name) FROM pragma_table_info('\(table)')") {
                (row) throws(HandlerError) in row.text(0)
            }.map { "quote(\"\($0.dropFirst().dropLast())\")" }.joined(separator: " || ', ' || ")
            lines += try source.all("SELECT \(columns) FROM \"\(table)\"") { (row) throws(HandlerError) in
                "INSERT INTO \"\(table)\" VALUES (\(row.text(0)));"
            }
        }
        return (lines + ["COMMIT;", ""]).joined(separator: "\n")
    }
}
