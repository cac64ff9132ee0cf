import Foundation
import Handlers
import Platform
import TestServers
import XMPPTestKit

/// The faults, the load, and the verdict.
final class Proof {
    private enum Fault: String, CaseIterable {
        case kill, freeze, cut, primary
    }

    /// How long a frozen or cut off machine stays so.
    private static let absence = Duration.seconds(6)
    /// How long the end may take.
    private static let patience = Duration.seconds(120)

    private let fleet: Fleet
    private var random: SplitMix
    private var sent = 0
    /// What was sent to each account, and when.
    private var sends: [Int: [(name: String, at: ContinuousClock.Instant)]] = [:]
    private var counts: [Fault: Int] = [:]
    /// The accounts of a machine at its death, and when that was.
    private var deaths: [(fault: Fault, accounts: Set<Int>, at: ContinuousClock.Instant)] = []
    /// What is to be undone, and when.
    private var undoing: [(at: ContinuousClock.Instant, undo: () throws -> Void)] = []
    private var busy: Set<Int> = []

    init(_ fleet: Fleet) {
        self.fleet = fleet
        random = SplitMix(seed: fleet.size.seed)
    }

    func run() throws -> Bool {
        let size = fleet.size
        try watchFence()
        say(
            "\(size.machines) machines (process groups behind proxies), \(size.accounts) accounts, seed \(size.seed)"
        )
        for account in 0..<size.accounts { try send(to: account) }
        try wait("all accounts answer") { fleet.peer.contents.answers.count == sent }
        let begin = ContinuousClock.now
        let end = begin + .seconds(size.seconds)
        var nextFault = begin + .seconds(2)
        var paced = 0
        while ContinuousClock.now < end {
            let due = Int((ContinuousClock.now - begin) / .milliseconds(1)) * size.rate / 1000
            while paced < due {
                try send(to: Int.random(in: 0..<size.accounts, using: &random))
                paced += 1
            }
            try undo(until: .now)
            if ContinuousClock.now >= nextFault {
                try fault()
                nextFault = .now + .milliseconds(Int.random(in: 1000...4000, using: &random))
            }
            SystemThread.sleep(microseconds: 5000)
        }
        try undo(until: end + .seconds(3600))
        let isComplete = (try? wait("everything is done") { try isDone() }) != nil
        return try verdict(isComplete, in: ContinuousClock.now - begin)
    }

    private func send(to account: Int) throws {
        try fleet.peer.send("m\(sent)", to: account)
        sends[account, default: []].append(("m\(sent)", .now))
        sent += 1
    }

    // MARK: Faults

    private func fault() throws {
        let fault = Fault.allCases.randomElement(using: &random)!  // There are some.
        let free = fleet.members.indices.filter { !busy.contains($0) }
        if fault == .primary {
            counts[fault, default: 0] += 1
            return try fleet.killPrimary()
        }
        // One is left that works.
        guard free.count > 1, let index = free.randomElement(using: &random) else { return }
        let member = fleet.members[index]
        counts[fault, default: 0] += 1
        busy.insert(index)
        try deaths.append((fault, accounts(of: member), .now))
        let absence = fault == .kill ? Duration.seconds(1) : Self.absence
        switch fault {
        case .kill: fleet.kill(member)
        case .freeze: fleet.freeze(member)
        case .cut: fleet.cut(member)
        case .primary: break
        }
        undoing.append(
            (
                .now + absence,
                { [self] in
                    switch fault {
                    case .kill: try fleet.start(member)
                    case .freeze: fleet.thaw(member)
                    case .cut: fleet.join(member)
                    case .primary: break
                    }
                    busy.remove(index)
                }
            ))
    }

    private func undo(until time: ContinuousClock.Instant) throws {
        let due = undoing.filter { $0.at <= time }
        undoing.removeAll { $0.at <= time }
        for entry in due { try entry.undo() }
    }

    private func accounts(of member: Fleet.Member) throws -> Set<Int> {
        let jids = try fleet.query(
            "SELECT coalesce(string_agg(substr(jid, 2), ' '), '') FROM account JOIN ownership ON ownership.account = account.id WHERE slot = \(member.node)"
        )
        return Set(jids.split(separator: " ").compactMap { Int($0.prefix { $0 != "@" }) })
    }

    // MARK: Verdict

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

    private var toFinish: Int { (0..<sent).count { $0 % 5 == 0 } }

    private func isDone() throws -> Bool {
        guard fleet.peer.contents.answers.count >= sent else { return false }
        return try fleet.query("SELECT count(DISTINCT name) FROM finished") == "\(toFinish)"
    }

    private func verdict(_ isComplete: Bool, in time: Duration) throws -> Bool {
        let log = fleet.peer.contents
        let names = Set((0..<sent).map { "m\($0)" })
        let figures = [
            ("messages not answered", names.subtracting(log.answers.keys).count),
            ("messages answered twice", log.answers.values.count { $0.count > 1 }),
            ("messages not handled", try sent - number("SELECT count(DISTINCT name) FROM handled")),
            ("messages handled twice", try number("SELECT count(*) - count(DISTINCT name) FROM handled")),
            ("handlers not ended", try toFinish - number("SELECT count(DISTINCT name) FROM finished")),
            ("handlers ended twice", try number("SELECT count(*) - count(DISTINCT name) FROM finished")),
            ("commits of a fenced machine", try number("SELECT count(*) FROM stale")),
        ]
        say(
            "\(sent) messages and \(toFinish) handlers in \(time.components.seconds) s; "
                + Fault.allCases.map { "\($0.rawValue) \(counts[$0, default: 0])" }.joined(separator: ", "))
        for (what, count) in figures { say("  \(what): \(count)") }
        for fault in [Fault.kill, .freeze, .cut] { report(fault, log) }
        let isProven = isComplete && figures.allSatisfy { $0.1 == 0 }
        say(isProven ? "nothing lost, nothing repeated" : "FAILED")
        if !isProven, let words = try? String(contentsOfFile: "\(fleet.folder)/machines.log", encoding: .utf8)
        {
            say(String(words.suffix(4000)))
        }
        return isProven
    }

    private func number(_ sql: String) throws -> Int { Int(try fleet.query(sql)) ?? -1 }

    /// How long the accounts of a lost machine answered nothing: to the first answer to what was sent after the loss.
    private func report(_ fault: Fault, _ log: Peer.Log) {
        var waits: [Duration] = []
        for death in deaths where death.fault == fault {
            for account in death.accounts {
                let after = sends[account, default: []].filter { $0.at >= death.at }
                let answered = after.compactMap { log.answers[$0.name]?.first }.min()
                if let answered { waits.append(answered - death.at) }
            }
        }
        waits.sort()
        guard !waits.isEmpty else { return }
        say(
            "  accounts after \(fault.rawValue): p50 \(waits[waits.count / 2]), p99 \(waits[waits.count * 99 / 100])"
        )
    }

    private func wait(_ what: String, until isTrue: () throws -> Bool) throws {
        let end = ContinuousClock.now + Self.patience
        while try !isTrue() {
            guard ContinuousClock.now < end else {
                throw NotInTime(what: what)
            }
            SystemThread.sleep(microseconds: 50_000)
        }
    }

    private func say(_ text: String) {
        print(text)
        fflush(nil)
    }
}

struct NotInTime: Error {
    let what: String
}
