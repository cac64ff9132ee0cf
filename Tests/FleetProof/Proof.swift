import Foundation
import Handlers
import Platform

/// The load, and the verdict.
final class Proof {
    /// How long the end may take.
    private static let patience = Duration.seconds(120)
    /// How many messages may wait for their answers while there are no faults.
    private static let window = 2000

    private let fleet: Fleet
    private var random: SplitMix

    init(_ fleet: Fleet) {
        self.fleet = fleet
        random = SplitMix(seed: fleet.size.seed)
    }

    func run() throws -> Findings {
        let size = fleet.size
        try watchFence()
        for account in 0..<size.accounts { try fleet.peer.send(to: account) }
        try wait("all accounts answer") { fleet.peer.answeredCount == size.accounts }
        let begin = now
        let kinds = size.faults.filter { $0 != .silence || fleet.members.allSatisfy(\.hasNetwork) }
        var faults = Faults(kinds, size.seconds, from: begin, &random)
        var paced = 0
        while now < begin + Int64(size.seconds) * 1000 {
            while paced < Int(now - begin) * size.rate / 1000 {
                try send()
                paced += 1
            }
            try faults.turn(fleet, &random)
            SystemThread.sleep(microseconds: 5000)
        }
        try faults.undo(fleet)
        var isComplete = (try? wait("everything is done") { try isDone() }) != nil
        let seconds = Int(now - begin) / 1000
        isComplete = isComplete && (try? wait("the accounts are divided") { try isDivided() }) != nil
        let calmRate = isComplete && size.calm > 0 ? try calm() : nil
        isComplete = isComplete && (try? wait("everything is done") { try isDone() }) != nil
        return try Findings(
            fleet, faults, from: begin, seconds: seconds, calmRate: calmRate, isComplete: isComplete)
    }

    private func send() throws {
        try fleet.peer.send(to: Int.random(in: 0..<fleet.size.accounts, using: &random))
    }

    /// - Returns: How many messages are answered in a second.
    private func calm() throws -> Double {
        // What looks at each commit belongs to the proof, not to the fleet.
        _ = try fleet.query("DROP TRIGGER handled_stale ON handled; DROP TRIGGER finished_stale ON finished")
        let (begin, before) = (now, fleet.peer.answeredCount)
        while now < begin + Int64(fleet.size.calm) * 1000 {
            while fleet.peer.sentCount - fleet.peer.answeredCount < Self.window { try send() }
            SystemThread.sleep(microseconds: 2000)
        }
        return Double(fleet.peer.answeredCount - before) * 1000 / Double(now - begin)
    }

    /// Has the database note each commit of a node that has no lease any more.
    private func watchFence() throws {
        _ = try fleet.query(
            """
            CREATE TABLE stale(name TEXT, node BIGINT);
            CREATE FUNCTION note_stale() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NOT EXISTS (SELECT 1 FROM node_lease WHERE node = NEW.node) THEN
                    INSERT INTO stale VALUES (NEW.name, NEW.node);
                END IF;
                RETURN NULL;
            END $$;
            CREATE CONSTRAINT TRIGGER handled_stale AFTER INSERT ON handled DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION note_stale();
            CREATE CONSTRAINT TRIGGER finished_stale AFTER INSERT ON finished DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION note_stale();
            """)
    }

    /// Whether each machine has accounts, and none is on its way.
    private func isDivided() throws -> Bool {
        func owners() throws -> String {
            try fleet.query(
                "SELECT string_agg(account || '/' || coalesce(slot, 0), ' ' ORDER BY account) FROM ownership")
        }
        let isShared =
            try fleet.query(
                """
                SELECT count(DISTINCT slot) = \(fleet.size.machines) AND count(slot) = \(fleet.size.accounts) FROM ownership
                """) == "t"
        guard isShared else { return false }
        let before = try owners()
        SystemThread.sleep(microseconds: 2_000_000)
        return try owners() == before
    }

    private func isDone() throws -> Bool {
        let sent = fleet.peer.sentCount
        guard fleet.peer.answeredCount >= sent, fleet.peer.unfinishedCount == 0 else { return false }
        return try fleet.query("SELECT count(DISTINCT name) FROM finished") == "\((sent + 4) / 5)"
    }

    private func wait(_ what: String, until isTrue: () throws -> Bool) throws {
        let end = ContinuousClock.now + Self.patience
        while try !isTrue() {
            guard ContinuousClock.now < end else { throw FleetError(what: "not in time: \(what)") }
            SystemThread.sleep(microseconds: 50_000)
        }
    }
}

struct FleetError: Error {
    let what: String
}
