package import Handlers
import XMPPCore

/// What is wrong in a store, and what goes on there: the first lines of `inspect`.
extension StoreContents {
    /// Handlers that wait for a person or for another program.
    package struct Broken: Codable {
        package var state: HandlerStatus.State
        package var count: Int64
        /// The most frequent names.
        package var names: [Named]
    }

    /// What the first lines say.
    package struct Summary: Codable {
        /// The time of the read, by the wall clock, in RFC 3339.
        package var at: String
        /// Quarantined and parked handlers.
        package var broken: [Broken]
        /// How long the oldest due handler has been due; negative for the time until the next one. Nil without such a handler.
        package var oldestDue: Int64?
        /// Of the last hour, in which ten minutes count as a whole.
        package var ended: Int64
        package var failed: Int64
        /// How long handlers were due until they were called, at most, of half of the calls and of 99 of 100; nil without calls.
        package var waitP50: Int64?
        package var waitP99: Int64?
    }

    /// The time after which a due handler counts as overdue.
    private static let patience: Int64 = 1000
    /// The number of names that the head shows of quarantined and of parked handlers.
    private static let shownNames = 3

    static func summary(_ snapshot: borrowing Snapshot) throws(HandlerError) -> Summary {
        let now = snapshot.now
        var total = HandlerActivity()
        for (_, activity) in try snapshot.activity(since: now - .seconds(3600)) { total.add(activity) }
        var broken: [Broken] = []
        let states: [HandlerStatus.State] = [.quarantined, .parked]
        for state in states {
            let names = try snapshot.all(
                """
                SELECT name, count(*) FROM handler WHERE \(state.stored.condition)
                GROUP BY name ORDER BY count(*) DESC, name
                """
            ) { Named(handler: $0.text(0), count: $0.integer(1)) }
            guard !names.isEmpty else { continue }
            broken.append(
                Broken(
                    state: state, count: names.reduce(0) { $0 + $1.count },
                    names: Array(names.prefix(shownNames))))
        }
        return Summary(
            at: "\(now)", broken: broken,
            oldestDue: try snapshot.oldestDue().map { now.milliseconds - $0.milliseconds },
            ended: total.ended, failed: total.failed,
            waitP50: total.waits.quantile(0.5)?.milliseconds,
            waitP99: total.waits.quantile(0.99)?.milliseconds)
    }

    // MARK: Lines

    func headLines(_ style: TerminalStyle) -> [VisibleText] {
        let open = processes.filter(\.lives)
        let names = open.map { process in
            process.pid.map { "\($0)" } ?? "node \(process.slot)"
        }.prefix(5).joined(separator: ", ")
        var lines: [VisibleText] = [
            "  \(summary.at)  \(open.isEmpty ? "no process has it open" : "open in \(open.count == 1 ? "1 process" : "\(open.count) processes") (\(names))")"
        ]
        for broken in summary.broken {
            let names = broken.names.map { "\($0.handler) \($0.count)" }.joined(separator: ", ")
            lines.append(
                style.warning(
                    "! \(broken.count) \(broken.state.rawValue): \(names)   pushwake handler list --state \(broken.state.rawValue)"
                ))
        }
        return lines + [workLine(style), hourLine]
    }

    private func workLine(_ style: TerminalStyle) -> VisibleText {
        let broken = summary.broken.reduce(0) { $0 + $1.count }
        let waiting = handlers.count - running.count - broken
        let due =
            switch summary.oldestDue {
            case nil: "nothing is due"
            case .some(let late) where late > Self.patience: "the oldest is overdue since \(Span.text(late))"
            case .some(let late): late >= 0 ? "one is due now" : "the next is due in \(Span.text(-late))"
            }
        let full = lanes.shown.filter { $0.waiting > 0 && $0.why != nil }.map {
            "\($0.name) (\($0.waiting) wait)"
        }
        let stalled =
            full.isEmpty ? "" : "; lanes that start nothing now: \(full.prefix(5).joined(separator: ", "))"
        let line: VisibleText = "  \(waiting) wait, \(running.count) run; \(due)\(stalled)"
        return summary.oldestDue ?? 0 > 60_000 ? style.warning(line) : line
    }

    private var hourLine: VisibleText {
        let waits =
            summary.waitP50.map { half in
                ", half were called within \(Span.text(half)) and 99 of 100 within \(Span.text(summary.waitP99 ?? half))"
            } ?? ""
        return "  last hour: \(summary.ended) ended, \(summary.failed) failed for good\(waits)"
    }
}
