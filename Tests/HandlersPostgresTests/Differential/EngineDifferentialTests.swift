import Foundation
import HandlersTestKit
import Synchronization
import TestServers
import TestSupport
import TestThreads
import Testing

@testable import Handlers
@testable import HandlersPostgres

/// Random programs run on SQLite and on PostgreSQL: they must leave the same rows and throw the same codes.
@Suite(.serialized, .ownThread, .timeLimit(.minutes(120))) struct EngineDifferentialTests {
    /// An engine with its store, and what the program has learned from it.
    private final class Side {
        let clock = VirtualClock()
        let store: HandlerStore
        let runner: HandlerRunner
        private var bound: [AnyHandlerID] = []
        private(set) var learned: [String] = []

        init(_ open: (HandlerRegistry, [Schema], TimeSource) throws -> HandlerStore) throws {
            store = try open(HandlerRegistry(Programmed.all), [Programmed.schema], clock.timeSource)
            // One async handler at a time, so that they end in one order.
            runner = try HandlerRunner(store, .init(leases: 1))
        }

        /// Lets ids start with numbers that no other number is taken for.
        func number(_ sql: (_ table: String, _ first: Int64) -> String) throws {
            for (index, table) in EngineDifferentialTests.counted.enumerated() {
                try store.step { step in _ = try step.all(sql(table, Int64(index + 1) * 1_000_000)) { _ in } }
            }
        }

        /// Empties the store.
        func clear() throws {
            (bound, learned) = ([], [])
            try store.step { step in
                for table in EngineDifferentialTests.tables { try step.execute("DELETE FROM \(table)") }
                try step.execute("INSERT INTO once(id) VALUES (1)")
            }
        }

        func run(_ operations: [Operation], isGivenUp: Bool) {
            var words: [String] = []
            do {
                let new = try store.step { step in
                    words = []
                    var new: [AnyHandlerID] = []
                    for operation in operations { words.append(try perform(operation, step, &new)) }
                    if isGivenUp { throw Thrown(description: "given up") }
                    return new
                }
                bound += new
                learned.append(words.joined(separator: "; "))
            } catch let error as HandlerError {
                // Not what it learned before: PostgreSQL may find only at the commit that a part has failed.
                learned.append("failed: \(error.code.rawValue)")
            } catch {
                learned.append("failed: thrown")
            }
        }

        func advance(by duration: Duration) async throws {
            clock.advance(by: duration)
            while true {
                let rest = try runner.runDue()
                if leasesLeft > 0 {
                    if rest == .zero { continue }
                    return
                }
                Programmed.gate.open()
                try await eventually { leasesLeft > 0 }
            }
        }

        private var leasesLeft: Int {
            let id = runner.id
            return runner.loop.withMachine { $0.leasesLeft(of: id) }
        }

        private func known(_ index: Int) -> HandlerID<TimerFired>? {
            bound.isEmpty ? nil : HandlerID(rawValue: bound[index % bound.count].rawValue)
        }

        private func perform(
            _ operation: Operation, _ step: borrowing Step, _ new: inout [AnyHandlerID]
        ) throws -> String {
            func orElse(_ actions: [Action]?) throws -> Durable<Invalidation>? {
                try actions.map { try Programmed.Over(actions: $0).durable }
            }
            switch operation {
            case .schedule(let actions, let other, let milliseconds, let period):
                new.append(
                    AnyHandlerID(
                        try step.schedule(
                            Programmed.Act(actions: actions).durable.orElse(orElse(other)),
                            after: .milliseconds(milliseconds), every: period.map { .milliseconds($0) })))
            case .async(let actions, let other, let result):
                new.append(
                    AnyHandlerID(
                        try step.schedule(
                            Programmed.ActAsync(actions: actions, result: result).durable.orElse(
                                orElse(other)),
                            after: .zero)))
            case .bind(let key, let actions, let replaces):
                new.append(
                    AnyHandlerID(
                        try step.bind(
                            Programmed.Receive(actions: actions).durable, key: key,
                            ifTaken: replaces ? .replace : .refuse)))
            case .stand(let key, let actions, let isOrdered):
                new.append(
                    AnyHandlerID(
                        try step.bindStanding(
                            Programmed.Receive(actions: actions).durable, key: key, ifTaken: .keep,
                            ordered: isOrdered)))
            case .signal(let key, let text): return "signal \(named(try step.signal(key, text)))"
            case .misfit(let key, let text): return "misfit \(named(try step.signal(key, [text: [1.5]])))"
            case .lane(let name, let concurrency, let rate):
                try step.setLane(
                    LaneRule(
                        name, concurrency: concurrency, rate: rate.map { LaneRate($0, per: .seconds(1)) }))
            case .enqueue(let lane, let priority, let order, let actions):
                new.append(
                    AnyHandlerID(
                        try step.enqueue(
                            Programmed.Act(actions: actions).durable, with: TimerFired(dueAt: step.now),
                            lane: LanePlace(lane, priority: priority, orderedBy: order))))
            case .chain(let milliseconds, let actions):
                try step.withChainLimit(.milliseconds(milliseconds)) {
                    new.append(
                        AnyHandlerID(
                            try step.schedule(Programmed.Act(actions: actions).durable, after: .seconds(1))))
                }
            case .join(let one, let other, let any, let meets):
                new += try join([one, other], any ? .any : .all, meets, step)
            case .workflow(let moments):
                new.append(AnyHandlerID(try step.start(Programmed.Flowing(moments: moments).durable)))
            case .own(let value): try step.store(value)
            case .note(let text): try step.note(text)
            case .invalidate(let index, let reason):
                guard let id = known(index) else { break }
                return named(try step.invalidate(id, reason: InvalidationReason(rawValue: reason)))
            case .discard(let index): if let id = known(index) { try step.discard(id) }
            case .requeue(let index): if let id = known(index) { try step.requeue(id) }
            }
            return "done"
        }

        /// - Returns: The children, then their parent.
        private func join(
            _ children: [[Action]], _ rule: JoinRule, _ meets: [Action], _ step: borrowing Step
        ) throws -> [AnyHandlerID] {
            let bound = try children.map {
                AnyHandlerID(
                    try step.schedule(Programmed.Act(actions: $0).durable, after: .milliseconds(500)))
            }
            let parent = try step.join(Programmed.Meet(actions: meets).durable, when: rule, of: bound)
            return bound + [AnyHandlerID(parent)]
        }

        private func named(_ disposition: Disposition?) -> String {
            switch disposition {
            case nil: "nobody"
            case .ended?: "ended"
            case .queued?: "queued"
            case .retrying(let time, _)?: "retrying at \(time.milliseconds)"
            case .parked?: "parked"
            case .quarantined?: "quarantined"
            case .failed?: "failed"
            }
        }
    }

    private static let tables = [
        "leaf", "root", "once", "own", "note", "join_child", "handler_join", "lane_entry", "lane_share",
        "lane",
        "chain_member",
        "chain_limit", "journal", "early_signal", "handler_key", "calendar", "handler_progress",
        "ending_detail",
        "ending",
        "dropped_call",
        "event", "handler",
    ]
    /// Those whose rows are numbered and named by others.
    private static let counted = ["handler", "event", "early_signal", "chain_limit"]

    /// All rows, with ids replaced by their order: an engine may leave some out.
    private static func rows(of side: Side, _ columns: [String: [String]]) throws -> [String] {
        var lines: [String] = []
        try side.store.read { snapshot in
            for table in tables {
                let names = columns[table] ?? []
                let isOwn = ["note", "own", "leaf"].contains(table)
                let shown = isOwn ? names.filter { $0 != "id" } : names
                let order = isOwn ? " ORDER BY id" : ""
                let found = try snapshot.all("SELECT \(shown.joined(separator: ", ")) FROM \(table)\(order)")
                { row in
                    shown.indices.map { "\(shown[$0])=\(text(row.value($0)))" }.joined(separator: " ")
                }
                for (index, line) in found.enumerated() {
                    lines.append("\(table)\(isOwn ? " \(index)" : ""): \(line)")
                }
            }
        }
        return inOrder(lines)
    }

    private static func text(_ value: SQLValue?) -> String {
        switch value {
        case nil: "no UTF-8"
        case .null?: "-"
        case .integer(let integer)?: "\(integer)"
        // SQLite keeps no sign of zero.
        case .real(let real)?: "\(real == 0 ? 0 : real)"
        case .text(let text)?: short(text)
        case .blob(let bytes)?: short(String(decoding: bytes, as: UTF8.self))
        }
    }

    /// The sentences of engines are their own.
    private static func short(_ text: String) -> String {
        let own = text.replacing(/(SQLite|PostgreSQL) refused .* \(code \w+\)/, with: "refused by the engine")
        return own.utf8.count <= 600 ? own : "\(own.utf8.count) bytes: \(own.prefix(100))"
    }

    /// Replaces ids by their ranks, and sorts.
    private static func inOrder(_ lines: [String]) -> [String] {
        let isID = /[1-4]\d{6}(?!\d)/
        var found: Set<String> = []
        for line in lines {
            for match in line.matches(of: isID) where !isInNumber(match.range, line) {
                found.insert(String(match.output))
            }
        }
        let ranks = Dictionary(uniqueKeysWithValues: found.sorted().enumerated().map { ($1, $0) })
        return lines.map { line in
            line.replacing(isID) { match in
                isInNumber(match.range, line) ? String(match.output) : "#\(ranks[String(match.output)] ?? -1)"
            }
        }.sorted { Array($0.utf8).lexicographicallyPrecedes(Array($1.utf8)) }
    }

    private static func isInNumber(_ range: Range<String.Index>, _ line: String) -> Bool {
        range.lowerBound > line.startIndex && line[line.index(before: range.lowerBound)].isNumber
    }

    /// Runs a program on both engines.
    private static func run(
        _ seed: UInt64, _ sides: [Side], _ columns: [String: [String]]
    ) async throws -> (learned: [[String]], rows: [[String]]) {
        var programs = sides.map { _ in RandomProgram(seed: seed) }
        for _ in 0..<8 {
            for (index, side) in sides.enumerated() {
                let step = programs[index].step()
                side.run(step.operations, isGivenUp: step.isGivenUp)
                try await side.advance(by: programs[index].pause())
            }
        }
        return (sides.map(\.learned), try sides.map { try rows(of: $0, columns) })
    }

    private static func operations(of seed: UInt64, step place: Int) -> [Operation] {
        var program = RandomProgram(seed: seed)
        var operations: [Operation] = []
        for _ in 0...place {
            operations = program.step().operations
            _ = program.pause()
        }
        return operations
    }

    @Test("R1 random programs leave the same rows on SQLite and on PostgreSQL, and throw the same codes")
    func programs() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let database = try PostgresServer.shared.makeDatabase()
        let sqlite = try Side { registry, schemas, time in
            try HandlerStore(
                path: folder.path + "/app.db", registry: registry, schemas: schemas, synchronous: .normal,
                time: time)
        }
        let postgres = try Side { registry, schemas, time in
            try HandlerStore(
                PostgresSettings(database.connection(), durability: nil), registry: registry,
                schemas: schemas,
                role: .main, time: time, log: nil)
        }
        let sides = [sqlite, postgres]
        defer { for side in sides { side.runner.close() } }
        var columns: [String: [String]] = [:]
        for table in Self.tables {
            columns[table] = try sqlite.store.read { snapshot in
                try snapshot.all("SELECT name FROM pragma_table_info('\(table)')") { $0.text(0) }
            }
        }
        try sqlite.number { "INSERT INTO sqlite_sequence(name, seq) VALUES ('\($0)', \($1)) RETURNING seq" }
        try postgres.number {
            "SELECT pg_catalog.setval(pg_catalog.pg_get_serial_sequence('\($0)'::text, 'id'::text)::regclass, \($1))"
        }
        let first = ProcessInfo.processInfo.environment["DIFFERENTIAL_SEED"].flatMap { Int($0) } ?? 0
        var differing = 0
        for seed in first..<first + TestScale.of(20_000, part: 300) {
            for side in sides { try side.clear() }
            let (learned, rows) = try await Self.run(UInt64(seed), sides, columns)
            let place = zip(learned[0], learned[1]).enumerated().first { $1.0 != $1.1 }?.offset
            let difference = place.map { (learned[0][$0], learned[1][$0]) }
            let unlike = Set(rows[0]).symmetricDifference(rows[1]).sorted()
            if difference == nil, unlike.isEmpty, rows[0].count == rows[1].count { continue }
            differing += 1
            let shown = unlike.prefix(6).map {
                "\(rows[0].contains($0) ? "SQLite" : "PostgreSQL") alone: \($0)"
            }
            Issue.record(
                """
                program \(seed): SQLite learned \(difference?.0 ?? "the same"), PostgreSQL \(difference?.1 ?? "the same")
                \(place.map { "in: \(Self.operations(of: UInt64(seed), step: $0))" } ?? "")
                \(shown.joined(separator: "\n"))
                """)
            if differing == 10 { break }
        }
        withExtendedLifetime(database) {}
    }
}
