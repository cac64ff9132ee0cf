package import Handlers
import XMPPAccount
import XMPPModules

/// Records in the store when each handler was bound and ended, and under which owner.
///
/// A handler's row is deleted with its arguments when the handler ends. Triggers copy them in the same transaction, so the record
/// contains exactly the committed changes. The rest of the program is unchanged.
package enum FlightRecorder {
    /// The history of one handler. Times in milliseconds since 1970.
    package struct Flight: Equatable {
        package var id: Int64
        package var name: String
        /// The arguments as text, with secrets masked.
        package var arguments: String
        package var bound: Int64
        /// The epoch of the owner that bound it, which identifies a process.
        package var boundBy: Int64
        package var ended: Int64?
        package var endedBy: Int64?
        package var outcome: Outcome?
        package var reason: String?
        package var trace: Int64
        /// The times of its failed calls.
        package var failures: [Int64] = []

        package init(
            id: Int64, name: String, arguments: String, bound: Int64, boundBy: Int64, ended: Int64? = nil,
            endedBy: Int64? = nil, outcome: Outcome? = nil, reason: String? = nil, trace: Int64,
            failures: [Int64] = []
        ) {
            (
                self.id, self.name, self.arguments, self.bound, self.boundBy, self.ended, self.endedBy,
                self.outcome, self.reason, self.trace, self.failures
            ) = (id, name, arguments, bound, boundBy, ended, endedBy, outcome, reason, trace, failures)
        }
    }

    /// An owner of the account.
    package struct Epoch: Equatable {
        package var number: Int64
        /// `main` or `worker`.
        package var owner: String
        package var since: Int64
    }

    package struct Record {
        package var flights: [Flight]
        package var epochs: [Epoch]
        /// The times at which sessions were bound and resumed.
        package var sessions: [Chronicle.Mark]
    }

    /// The current time as the store writes times.
    private static let now = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
    private static let owner = "(SELECT max(epoch) FROM ownership)"

    private static let script = [
        """
        CREATE TABLE report_flight(handler INTEGER PRIMARY KEY, name TEXT NOT NULL, arguments BLOB NOT NULL,
            bound_at INTEGER NOT NULL, bound_by INTEGER, ended_at INTEGER, ended_by INTEGER, outcome INTEGER, reason TEXT,
            trace INTEGER)
        """,
        "CREATE TABLE report_failure(handler INTEGER NOT NULL, at INTEGER NOT NULL)",
        "CREATE TABLE report_epoch(epoch INTEGER PRIMARY KEY, owner TEXT, since INTEGER NOT NULL)",
        "CREATE TABLE report_session(at INTEGER NOT NULL, kind TEXT NOT NULL, number INTEGER NOT NULL)",
        """
        CREATE TRIGGER report_bound AFTER INSERT ON handler WHEN NEW.kind = \(Transaction.Kind.once.sql) BEGIN
            INSERT INTO report_flight(handler, name, arguments, bound_at, bound_by, trace)
            VALUES (NEW.id, NEW.name, NEW.arguments, NEW.bound_at, \(owner), coalesce(NEW.trace, NEW.id));
        END
        """,
        """
        CREATE TRIGGER report_ended AFTER INSERT ON ending BEGIN
            UPDATE report_flight SET ended_at = NEW.ended_at, ended_by = \(owner), outcome = NEW.outcome,
                reason = NEW.reason WHERE handler = NEW.handler;
        END
        """,
        """
        CREATE TRIGGER report_failed AFTER UPDATE OF attempts ON handler
            WHEN NEW.attempts > OLD.attempts AND NEW.state <> \(Transaction.State.leased.sql) BEGIN
            INSERT INTO report_failure VALUES (NEW.id, \(now));
        END
        """,
        """
        CREATE TRIGGER report_first_epoch AFTER INSERT ON ownership BEGIN
            INSERT OR IGNORE INTO report_epoch VALUES (NEW.epoch, NEW.owner, \(now));
        END
        """,
        """
        CREATE TRIGGER report_next_epoch AFTER UPDATE OF epoch ON ownership WHEN NEW.epoch <> OLD.epoch BEGIN
            INSERT OR IGNORE INTO report_epoch VALUES (NEW.epoch, NEW.owner, \(now));
        END
        """,
        """
        CREATE TRIGGER report_bind AFTER UPDATE OF bound_count ON session WHEN NEW.bound_count > OLD.bound_count BEGIN
            INSERT INTO report_session VALUES (\(now), 'bound', NEW.number);
        END
        """,
        """
        CREATE TRIGGER report_resume AFTER UPDATE OF resumed_count ON session
            WHEN NEW.resumed_count > OLD.resumed_count BEGIN
            INSERT INTO report_session VALUES (\(now), 'resumed', NEW.number);
        END
        """,
    ]

    /// Installs the triggers in a store that no process has used yet.
    package static func install(in path: String) throws {
        let store = try HandlerStore(
            path: path, registry: HandlerRegistry(), schemas: Account.schemas + [SimulationApp.schema])
        try store.step { step in for statement in script { try step.execute(statement) } }
    }

    package static func read(_ path: String) throws -> Record {
        try StoreReader(path: path, schemas: Account.schemas).read { snapshot in
            Record(
                flights: try flights(snapshot), epochs: try epochs(snapshot), sessions: try sessions(snapshot)
            )
        }
    }

    private static func flights(_ snapshot: borrowing Snapshot) throws(HandlerError) -> [Flight] {
        let failures = try snapshot.all("SELECT handler, at FROM report_failure ORDER BY at") {
            ($0.integer(0), $0.integer(1))
        }
        let failuresOf = Dictionary(grouping: failures, by: \.0).mapValues { $0.map(\.1) }
        return try snapshot.all(
            """
            SELECT handler, name, arguments, bound_at, bound_by, ended_at, ended_by, outcome, reason, trace
            FROM report_flight ORDER BY bound_at, handler
            """
        ) { row in
            Flight(
                id: row.integer(0), name: row.text(1), arguments: Masking.text(row.blob(2)),
                bound: row.integer(3), boundBy: row.integer(4), ended: row.optionalInteger(5),
                endedBy: row.optionalInteger(6), outcome: Outcome(rawValue: row.integer(7)),
                reason: row.optionalText(8), trace: row.integer(9),
                failures: failuresOf[row.integer(0)] ?? [])
        }
    }

    private static func epochs(_ snapshot: borrowing Snapshot) throws(HandlerError) -> [Epoch] {
        try snapshot.all("SELECT epoch, owner, since FROM report_epoch ORDER BY epoch") {
            Epoch(number: $0.integer(0), owner: $0.text(1), since: $0.integer(2))
        }
    }

    private static func sessions(_ snapshot: borrowing Snapshot) throws(HandlerError) -> [Chronicle.Mark] {
        try snapshot.all("SELECT at, kind, number FROM report_session ORDER BY at") { row in
            Chronicle.Mark(
                at: row.integer(0), kind: row.text(1), text: "session \(row.integer(2)) \(row.text(1))")
        }
    }
}
