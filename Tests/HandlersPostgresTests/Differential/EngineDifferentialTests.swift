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

        /// Lets ids begin with numbers that no other number is taken for.
        func number(_ sql: (_ table: String, _ first: Int64) -> String) throws {
            for (index, table) in EngineDifferentialTests.counted.enumerated() {
                try store.step { step in _ = try step.all(sql(table, Int64(index + 1) * 1_000_000)) { _ in } }
            }
        }

        /// Empties the store.
        func begin() throws {
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
                learned.append("\(words.joined(separator: "; ")) -> \(error.code.rawValue)")
            } catch {
                learned.append("\(words.joined(separator: "; ")) -> thrown")
            }
        }

        func advance(by duration: Duration) async throws {
            clock.advance(by: duration)
            _ = try await runner.finishDue(within: .seconds(60))
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
                            Programmed.ActAsync(actions: actions, result: result).durable.orElse(orElse(other)),
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
                let children = try [one, other].map {
                    AnyHandlerID(
                        try step.schedule(Programmed.Act(actions: $0).durable, after: .milliseconds(500)))
                }
                new += children
                new.append(
                    AnyHandlerID(
                        try step.join(
                            Programmed.Meet(actions: meets).durable, when: any ? .any : .all, of: children)))
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
        "leaf", "root", "once", "own", "note", "join_child", "handler_join", "lane_entry", "lane", "chain_member",
        "chain_limit", "journal", "early_signal", "handler_key", "calendar", "ending_detail", "ending", "dropped_call",
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
                let found = try snapshot.all("SELECT \(shown.joined(separator: ", ")) FROM \(table)\(order)") { row in
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
        // The sentences of engines are their own.
        case .text(let text)?: text.contains("(code ") ? "an engine's words" : text.count > 200 ? "\(text.utf8.count) bytes: \(text.prefix(200))" : text
        case .blob(let bytes)?: bytes.count > 2000 ? "\(bytes.count) bytes" : String(decoding: bytes, as: UTF8.self)
        }
    }

    /// Replaces ids by their ranks, and sorts.
    private static func inOrder(_ lines: [String]) -> [String] {
        let isID = /[1-4]\d{6}(?!\d)/
        var found: Set<String> = []
        for line in lines { for match in line.matches(of: isID) where !isInNumber(match.range, line) { found.insert(String(match.output)) } }
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

    @Test("R1 random programs leave the same rows on SQLite and on PostgreSQL, and throw the same codes")
    func programs() async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let database = try PostgresServer.shared.makeDatabase()
        let sqlite = try Side { registry, schemas, time in
            try HandlerStore(
                path: folder.path + "/app.db", registry: registry, schemas: schemas, synchronous: .normal, time: time)
        }
        let postgres = try Side { registry, schemas, time in
            try HandlerStore(
                PostgresSettings(database.connection(), durability: nil), registry: registry, schemas: schemas,
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
        for seed in first..<first + TestScale.of(20_000, part: 300) {
            for side in sides { try side.begin() }
            let (learned, rows) = try await Self.run(UInt64(seed), sides, columns)
            let difference = zip(learned[0], learned[1]).first { $0 != $1 }
            #expect(difference == nil, "program \(seed): SQLite learned \(difference?.0 ?? ""), PostgreSQL \(difference?.1 ?? "")")
            let unlike = Set(rows[0]).symmetricDifference(rows[1]).sorted()
            #expect(
                rows[0] == rows[1],
                "program \(seed): \(unlike.prefix(4).map { (rows[0].contains($0) ? "SQLite alone: " : "PostgreSQL alone: ") + $0 })")
            if difference != nil || rows[0] != rows[1] { return }
        }
        withExtendedLifetime(database) {}
    }
}
