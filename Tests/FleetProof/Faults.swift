import Foundation
import Handlers

/// What happens to the machines and the primary, and when.
struct Faults {
    enum Kind: String, CaseIterable, Encodable {
        case kill, freeze, cut, primary
        /// The connection is lost on which a machine renews its lease, and no other one.
        case silence

        /// How often it happens in ten minutes.
        var rate: Int {
            switch self {
            case .kill: 30
            case .freeze, .cut: 10
            case .primary, .silence: 5
            }
        }

        /// How long it lasts, in milliseconds.
        var absence: Int64 { self == .kill ? 2000 : 10_000 }
    }

    /// A loss, with times in milliseconds since 1970.
    struct Loss {
        let kind: Kind
        var at: Int64
        /// When another primary had been promoted.
        var endedAt: Int64?
        /// The accounts that the machine ran.
        var accounts: Set<Int> = []
    }

    /// What has not happened yet.
    private(set) var waiting: [Kind]
    private let pause: Int64
    private var next: Int64
    private(set) var losses: [Loss] = []
    /// What is to be undone, and when.
    private var undoing: [(at: Int64, machine: Int, undo: () throws -> Void)] = []

    /// - Parameter seconds: How long they last, at the rate of all.
    init(_ kinds: [Kind], _ seconds: Int, from start: Int64, _ random: inout SplitMix) {
        waiting = kinds.flatMap { kind in
            Array(repeating: kind, count: max(1, kind.rate * seconds / 600))
        }.shuffled(using: &random)
        // The last one is to be over at the end.
        pause = max(1000, Int64(seconds * 1000 - 15_000)) / Int64(max(1, waiting.count))
        next = start + 1000
    }

    mutating func turn(_ fleet: Fleet, _ random: inout SplitMix) throws {
        try undo(fleet, until: now)
        guard now >= next, let kind = waiting.last else { return }
        if kind == .primary {
            // A new standby must be there, or nothing could be committed after it.
            guard try fleet.servers.databases.isComplete else { return }
            var loss = Loss(kind: kind, at: now)
            try fleet.killPrimary()
            loss.endedAt = now
            losses.append(loss)
        } else {
            // One is left that works.
            let free = fleet.members.indices.filter { index in !undoing.contains { $0.machine == index } }
            guard free.count > 1, let index = free.randomElement(using: &random) else { return }
            let member = fleet.members[index]
            var loss = Loss(kind: kind, at: 0, accounts: try accounts(of: member, fleet))
            loss.at = now
            let undo: () throws -> Void
            switch kind {
            case .kill:
                fleet.kill(member)
                undo = { try fleet.start(member) }
            case .freeze:
                fleet.freeze(member)
                undo = { fleet.thaw(member) }
            case .silence:
                guard let silence = try fleet.silence(member) else { return }
                undo = {
                    try member.lose(false, from: silence.port)
                    guard
                        try fleet.query("SELECT count(*) FROM node_lease WHERE node = \(silence.node)") == "0"
                    else {
                        throw FleetError(what: "node \(silence.node) has a lease that it cannot have renewed")
                    }
                }
            case .cut, .primary:
                try fleet.cut(member)
                undo = { try fleet.join(member) }
            }
            losses.append(loss)
            undoing.append((now + kind.absence, index, undo))
        }
        waiting.removeLast()
        next += pause
    }

    /// - Parameter time: In milliseconds since 1970; nil for all.
    mutating func undo(_ fleet: Fleet, until time: Int64? = nil) throws {
        let due = undoing.filter { $0.at <= time ?? .max }
        undoing.removeAll { $0.at <= time ?? .max }
        for entry in due { try entry.undo() }
    }

    private func accounts(of member: Member, _ fleet: Fleet) throws -> Set<Int> {
        let jids = try fleet.query(
            "SELECT coalesce(string_agg(substr(jid, 2), ' '), '') FROM account JOIN ownership ON ownership.account = account.id WHERE slot = (SELECT max(node) FROM machine WHERE name = '\(member.name)')"
        )
        return Set(jids.split(separator: " ").compactMap { Int($0.prefix { $0 != "@" }) })
    }
}
