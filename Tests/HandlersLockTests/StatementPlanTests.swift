import Handlers
import Omemo
import PubSub
import PushwakeCommands
import TestThreads
import Testing
import Upload
import XMPPAccount
import XMPPModules

/// How SQLite runs each statement that the modules hold, read from their sources.
///
/// No test copies a statement: the literals of the sources are explained as they stand, in a database with all tables.
@Suite(.ownThread) struct StatementPlanTests {
    private static let schemas =
        Account.schemas + PubSubEvents.schemas + OmemoService.schemas + UploadModule.schemas + [
            ClientApp.schema
        ]
    /// What people run by hand, and tests, may read all there is.
    private static let folders = [
        "Handlers", "IQTracker", "XMPPAccount", "XMPPModules", "PubSub", "Omemo", "Upload",
        "PushwakeCommands/Client",
    ]

    @Test(
        "H16 no statement of the sources reads a table that grows from end to end, or sorts handlers, requests or the outbox for their first rows"
    )
    func plans() throws {
        let statements = try Self.folders.flatMap(SourceStatement.all)
        #expect(statements.count > 400, "the literals were not found")
        let database = try PlanDatabase(Self.schemas)
        for statement in statements where !Self.isMeant(statement.sql) {
            let plan = try database.plan(of: statement.sql)
            let bad = Self.faults(of: plan, statement.sql)
            #expect(bad.isEmpty, "\(statement.file): \(statement.sql)\n\(plan.joined(separator: "\n"))")
        }
    }

    @Test(
        "H16 a statement without an index is found",
        arguments: [
            "SELECT id FROM handler WHERE bound_at < ?", "DELETE FROM request WHERE peer = ?",
            "SELECT id FROM handler WHERE scope IS ? AND lane = ? AND due IS NOT NULL ORDER BY bound_at LIMIT ?",
            "SELECT seq FROM outbox WHERE account = ? ORDER BY created_at LIMIT 1",
        ])
    func found(sql: String) throws {
        let plan = try PlanDatabase(Self.schemas).plan(of: sql)
        #expect(!Self.faults(of: plan, sql).isEmpty, "\(plan)")
    }

    @Test("H16 no statement of the sources has the number of a state or kind where its name belongs")
    func named() throws {
        for statement in try (Self.folders + ["Simulation"]).flatMap(SourceStatement.written) {
            let number = statement.sql.firstMatch(
                of:
                    #/\b(kind|state|outcome|lane|trust)\s*(=|<>|IN \(|WHEN)\s*[0-9]|CASE (kind|state) WHEN [0-9]/#
            )
            #expect(number == nil, "\(statement.file): \(statement.sql)")
        }
    }

    @Test(
        "H16 a statement about a state uses the index that it was written for",
        arguments: [
            (
                "SELECT id FROM handler WHERE \(Transaction.State.quarantined.condition)",
                "SEARCH handler USING COVERING INDEX handler_state (state=?)"
            ),
            (
                "SELECT jid FROM archive WHERE account = ? AND state = \(ArchiveTable.State.waiting.sql)",
                "SEARCH archive USING PRIMARY KEY (account=?)"
            ),
            (
                "UPDATE push_registration SET state = \(PushTable.Answer.pending.sql) WHERE account = ?",
                "SEARCH push_registration USING PRIMARY KEY (account=?)"
            ),
            (
                "SELECT seq FROM outbox WHERE account = ? AND session IS NULL AND kind = \(Outbox.Kind.request.sql)",
                "SEARCH outbox USING INDEX outbox_account (account=?)"
            ),
        ])
    func index(sql: String, line: String) throws {
        let plan = try PlanDatabase(Self.schemas).plan(of: sql)
        #expect(plan == [line])
    }

    @Test("H16 a row that others refer to can be removed without reading all of those")
    func references() throws {
        let database = try PlanDatabase(Self.schemas)
        let references = try database.references()
        #expect(references.contains { $0.table == "request" && $0.parent == "handler" })
        for reference in references {
            let columns = reference.columns.map { "\($0) = ?" }.joined(separator: " AND ")
            let plan = try database.plan(of: "SELECT 1 FROM \(reference.table) WHERE \(columns)")
            #expect(plan.allSatisfy { $0.hasPrefix("SEARCH") }, "\(reference): \(plan)")
        }
    }

    /// Tables that hold a row or a few, however much there is.
    private static let small = [
        "CONSTANT", "sqlite_schema", "sqlite_master", "sqlite_sequence", "pragma_application_id", "place",
        "identity",
        "connected_slot", "dropped_call", "lane", "push_removal", "capability", "answered", "told_invitation",
        "watched",
    ]
    /// Tables in which a program leaves as many rows as it wants; the others are bounded for each contact, room or node.
    private static let large = [
        "handler", "request", "outbox", "ending", "ending_detail", "event", "lane_entry", "lane_share",
        "chain_limit", "chain_member", "handler_failure", "handler_repair", "handler_activity",
    ]

    /// The lines of a plan that read all of a table, or sort what they read of a large one to give out its first rows.
    private static func faults(of plan: [String], _ sql: String) -> [String] {
        let words = plan.map { $0.split(separator: " ").map(String.init) }
        // What is made for the statement is read once, and is no table.
        let made = words.filter { ["CO-ROUTINE", "MATERIALIZE"].contains($0.first) }.compactMap {
            $0.dropFirst().first
        }
        let sorts = plan.contains { $0.contains("TEMP B-TREE FOR ORDER BY") } && sql.contains("LIMIT")
        // The first rows in the order of the table or of an index.
        let isPrefix = sql.contains("LIMIT") && !sql.contains("WHERE") && !sorts
        return zip(plan, words).filter { line, words in
            guard words.count > 1 else { return false }
            // A row that is found by its number leaves nothing to sort.
            let isOne = line.hasSuffix("USING INTEGER PRIMARY KEY (rowid=?)")
            if sorts, !isOne, ["SCAN", "SEARCH"].contains(words[0]), large.contains(words[1]) { return true }
            return words[0] == "SCAN" && !isPrefix && !(small + made).contains(words[1])
        }.map(\.0)
    }

    /// How statements start that may read all of something: what a person or a program asks for now and then.
    private static let meant = [
        // The program looks at its handlers, a page at a time.
        "SELECT DISTINCT name FROM handler ORDER BY name",
        "SELECT id, name, version, arguments, kind, state, bound_at, due, attempts, deaths, reason, size, trace, (SELECT key FROM handler_key WHERE handler_key.handler = handler.id), CASE WHEN state = 3 THEN leased_at END FROM handler",
        // Metrics, which a scraper reads every few seconds.
        "SELECT count(*) FROM handler", "SELECT state, count(*) FROM handler WHERE state <> 0 GROUP BY state",
        "SELECT name, min(due) FROM handler WHERE id IN (SELECT handler FROM calendar",
        // The server has refused a stanza for its size.
        "UPDATE outbox SET refusals = refusals + ?",
        // Looked at every so many events only.
        "DELETE FROM pubsub_seen_item WHERE row IN ( SELECT row FROM ( SELECT row, row_number()",
        // Only lines of a room that another process shows, and removes, are passed over.
        "SELECT row, peer, nick, own, sent_at, body, kind, private, id, about, subject FROM message WHERE peer NOT IN",
        // A built-in fault.
        "UPDATE handler SET due = NULL WHERE due > ?",
        // The store is moved, with every row.
        "SELECT id FROM account ORDER BY id", "UPDATE ownership SET owner = NULL, slot = NULL",
        "UPDATE session SET open_number = NULL", "DELETE FROM seen WHERE length(peer)",
        // Commands of a person.
        "SELECT a.id, a.jid, o.device, o.identity FROM account a",
        "SELECT count(*) FROM message",
    ]

    private static func isMeant(_ sql: String) -> Bool {
        let words = sql.split { $0.isWhitespace }.joined(separator: " ")
        return meant.contains { words.hasPrefix($0) }
    }
}
