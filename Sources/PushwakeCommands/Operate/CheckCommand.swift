import FoundationEssentials
import Platform
package import Handlers
package import XMPPCore

/// `pushwake check`: says in one line whether a store needs a person, with the exit status of plugins for monitoring.
package struct CheckCommand {
    /// An exit status of such a plugin.
    package enum Level: Int32, Comparable {
        case ok = 0
        case warning = 1
        case critical = 2
        /// The store cannot be read.
        case unknown = 3

        package static func < (left: Level, right: Level) -> Bool { left.rawValue < right.rawValue }
        var word: String { "\(self)".uppercased() }
    }

    package let options: OperateOptions
    private let most: [(option: String, state: HandlerStatus.State, count: Int)]
    private let overdue: Duration
    private let nodes: Int
    private let wal: Int64

    package init(
        _ words: [String], _ opener: StoreOpener,
        say: @escaping (VisibleText) -> Void = { Terminal.say($0) }
    ) throws {
        options = try OperateOptions(words, of: "check", opener, wordCount: 0, say: say)
        let arguments = options.arguments
        let states: [HandlerStatus.State] = [.quarantined, .parked]
        most = try states.map {
            ("--\($0)", $0, try arguments.number("--\($0)", in: 0...Int.max, default: 0))
        }
        overdue =
            try arguments.value("--overdue").map { try OperateOptions.time($0, of: "--overdue") }
            ?? .seconds(60)
        nodes = try arguments.number("--nodes", in: 0...10_000, default: 0)
        wal = try Int64(arguments.number("--wal", in: 0...1_000_000, default: 512)) << 20
    }

    package func run() -> Int32 {
        var findings: [(level: Level, text: String)] = []
        var numbers: [String] = []
        do {
            try check(&findings, &numbers)
        } catch {
            options.say("UNKNOWN - \(error)")
            return Level.unknown.rawValue
        }
        let level = findings.map(\.level).max() ?? .ok
        let bad = findings.filter { $0.level > .ok }.map(\.text)
        let sentence = bad.isEmpty ? "no handler needs a person" : bad.joined(separator: ", ")
        options.say("\(VisibleText(level.word)) - \(sentence) | \(numbers.joined(separator: " "))")
        return level.rawValue
    }

    private func check(
        _ findings: inout [(level: Level, text: String)], _ numbers: inout [String]
    ) throws {
        let reader = try options.reader()
        let summary = try reader.read { try StoreSummary($0, StoreContents.processes(reader, $0)) }
        for (option, state, most) in most {
            let count = summary.counts[state] ?? 0
            findings.append((count > most ? .critical : .ok, "\(count) \(state.rawValue)"))
            numbers.append("\(option.dropFirst(2))=\(count);;\(most)")
        }
        let late = summary.oldestDue ?? 0
        let text = "a handler is overdue since \(Span.text(late))"
        findings.append((late > overdue.milliseconds ? .critical : .ok, text))
        numbers.append("overdue=\(late / 1000)s;;\(overdue.components.seconds)")
        findings.append(
            (summary.alive < nodes ? .critical : .ok, "\(summary.alive) processes instead of \(nodes)"))
        numbers.append("nodes=\(summary.alive);;\(nodes):")
        let bytes = (try? FileStatus(options.store.text + "-wal").size) ?? 0
        findings.append((bytes > wal ? .warning : .ok, "the log has \(bytes >> 20) MiB"))
        numbers.append("wal=\(bytes)B;\(wal)")
    }
}

/// What a person needs to know of a store first. Each number is found by an index.
package struct StoreSummary {
    /// The handlers that are not pending, by their state.
    package var counts: [HandlerStatus.State: Int] = [:]
    /// The number of processes or nodes that work.
    package var alive = 0
    /// How long the oldest due handler has been due, in milliseconds; nil if none is.
    package var oldestDue: Int64?

    init(_ snapshot: borrowing Snapshot, _ processes: [StoreContents.Process]) throws(HandlerError) {
        alive = processes.count { ["running", "alive", "unknown"].contains($0.state) }
        let states: [HandlerStatus.State] = [.parked, .quarantined, .running]
        for state in states {
            counts[state] = try snapshot.first(
                "SELECT count(*) FROM handler WHERE \(state.stored.condition)", read: { Int($0.quantity(0)) })
        }
        let now = snapshot.now
        oldestDue = try snapshot.oldestDue().flatMap { $0 <= now ? (now - $0).milliseconds : nil }
    }
}
