package import Handlers
import Simulation
import XMPPCore

/// The timeline of any store, from its rows alone.
///
/// A handler that has not ended is a bar from its binding to now. Of one that has ended the store keeps the end and not the binding, so it
/// is a point. Handlers of one chain are drawn together, and all others by their names.
package struct StoreTimeline {
    /// A handler of the page, with times in milliseconds since 1970.
    private struct Drawn {
        var bar: TimelinePage.Bar
        var name: String
        /// The earliest time that is known of it.
        var time: Int64 { bar.bound ?? bar.ended ?? 0 }
    }

    private let store: String
    private let now: Int64
    private let counts: StoreTimelineCounts
    private let handlers: [Drawn]

    /// - Parameter limit: The maximum number of handlers that have not ended, and of endings, newest first.
    package init(_ reader: StoreReader, limit: Int) throws {
        store = reader.path
        (now, counts, handlers) = try reader.read { snapshot in
            let waits = try WaitReader(snapshot, StoreContents.processes(reader, snapshot))
            let waiting = try Self.waiting(snapshot, waits, limit)
            let endings = try HandlerFilter().endings(snapshot, limit: limit)
            let now = snapshot.now.milliseconds
            var drawn =
                waiting.map { Self.drawn($0, now: now) } + endings.shown.map { Self.drawn($0, now: now) }
            for index in drawn.indices {
                drawn[index].bar.parent = try snapshot.first(
                    "SELECT parent FROM join_child WHERE handler = ?", drawn[index].bar.id
                ) { $0.integer(0) }
            }
            return (
                now,
                try StoreTimelineCounts(
                    snapshot, shownWaiting: waiting.count, ended: endings.count,
                    shownEnded: endings.shown.count),
                drawn
            )
        }
    }

    // MARK: Reading

    private static func waiting(
        _ snapshot: borrowing Snapshot, _ waits: WaitReader, _ limit: Int
    ) throws(HandlerError) -> [WaitingHandler] {
        let ids = try snapshot.all("SELECT id FROM handler ORDER BY id DESC LIMIT ?", limit) {
            AnyHandlerID(rawValue: $0.integer(0))
        }
        var waiting: [WaitingHandler] = []
        for id in ids {
            if let status = try snapshot.status(of: id) {
                waiting.append(try waits.handler(status, snapshot))
            }
        }
        return waiting
    }

    private static func drawn(_ handler: WaitingHandler, now: Int64) -> Drawn {
        let status = handler.status
        var bar = TimelinePage.Bar(
            id: status.id.rawValue, name: 0, arguments: status.arguments,
            bound: past(status.boundAt.milliseconds, now), ended: nil, state: state(status.state),
            reason: status.reason, trace: status.trace.rawValue)
        bar.due = handler.left.map { now + min(max($0, -longest), longest) }
        bar.why = handler.why
        bar.key = status.key
        return Drawn(bar: bar, name: status.name)
    }

    private static func drawn(_ ending: StoreContents.Ending, now: Int64) -> Drawn {
        var bar = TimelinePage.Bar(
            id: ending.row, name: 0, arguments: "", bound: nil, ended: past(now - ending.age, now),
            state: Outcome.allCases.first { "\($0)" == ending.outcome }.map { .ended($0) } ?? .unknown,
            reason: ending.reason, trace: ending.trace)
        bar.key = ending.key
        return Drawn(bar: bar, name: ending.handler)
    }

    private static func state(_ state: HandlerStatus.State) -> TimelinePage.Bar.State {
        switch state {
        case .pending: .waiting
        case .running: .running
        case .parked: .parked
        case .quarantined: .quarantined
        }
    }

    /// The longest time before and after now that is drawn: a browser has no dates for all numbers that a row can hold.
    private static let longest: Int64 = 100 * 366 * 86_400_000

    private static func past(_ time: Int64, _ now: Int64) -> Int64 { min(max(time, now - longest), now) }
}

// MARK: The page

extension StoreTimeline {
    package func page() throws -> String {
        let start = handlers.map(\.time).min() ?? now
        // A time that is further ahead than the oldest handler is back is in the details only.
        let span = max(now - start, 60_000)
        let end = handlers.compactMap(\.bar.due).filter { $0 <= now + span }.max().map { max($0, now) } ?? now
        let names = Set(handlers.map(\.name)).sorted()
        let places = Dictionary(uniqueKeysWithValues: names.enumerated().map { ($0.element, $0.offset) })
        let groups = self.groups
        let bars = handlers.map { handler in
            var bar = handler.bar
            bar.name = places[handler.name] ?? 0
            bar.group = groups.places[bar.id] ?? 0
            bar.move(start: start)
            return bar
        }
        var page = TimelinePage(
            title: "pushwake report: \(store)", verdict: counts.verdict, isGood: counts.isGood,
            summary: counts.summary, duration: end - start + (end - start) / 50, names: names, handlers: bars)
        page.since = start
        page.now = now - start
        page.groups = groups.labels.map(TimelinePage.Bar.shown)
        return try page.page()
    }

    private enum Lane: Hashable {
        case chain(Int64)
        case name(String)
    }

    /// The lanes: each chain with several handlers, and for the other handlers each name; in the order of their first times.
    private var groups: (labels: [String], places: [Int64: Int]) {
        let chains = Dictionary(grouping: handlers, by: \.bar.trace)
        let lanes = Dictionary(grouping: handlers) { handler -> Lane in
            chains[handler.bar.trace]?.count == 1 ? .name(handler.name) : .chain(handler.bar.trace)
        }
        let ordered = lanes.sorted { Self.first($0.value) < Self.first($1.value) }
        var places: [Int64: Int] = [:]
        for (place, lane) in ordered.enumerated() {
            for handler in lane.value { places[handler.bar.id] = place }
        }
        let labels = ordered.map { lane, handlers in
            switch lane {
            case .name(let name): return name
            case .chain(let trace):
                let root = handlers.first { $0.bar.id == trace }
                return "chain #\(trace)" + (root.map { " " + $0.name } ?? "")
            }
        }
        return (labels, places)
    }

    private static func first(_ handlers: [Drawn]) -> (time: Int64, id: Int64) {
        handlers.map { ($0.time, $0.bar.id) }.min { $0 < $1 } ?? (0, 0)
    }
}

/// The numbers of handlers of a store, for the page's head.
struct StoreTimelineCounts {
    private var states: [HandlerStatus.State: Int64] = [:]
    private var outcomes: [(word: String, count: Int64)] = []
    private let ended: Int64
    private let shownWaiting: Int
    private let shownEnded: Int

    init(
        _ snapshot: borrowing Snapshot, shownWaiting: Int, ended: Int64, shownEnded: Int
    ) throws(HandlerError) {
        (self.shownWaiting, self.ended, self.shownEnded) = (shownWaiting, ended, shownEnded)
        for state in HandlerStatus.State.allCases {
            states[state] = try snapshot.first(
                "SELECT count(*) FROM handler WHERE \(state.stored.condition)"
            ) { $0.integer(0) }
        }
        outcomes = try snapshot.all("SELECT outcome, count(*) FROM ending GROUP BY outcome ORDER BY outcome")
        {
            (StoreContents.outcome($0.integer(0)), $0.integer(1))
        }
    }

    private func count(_ state: HandlerStatus.State) -> Int64 { states[state] ?? 0 }

    var isGood: Bool { count(.parked) + count(.quarantined) == 0 }

    var verdict: String {
        isGood
            ? "No handler is quarantined or parked."
            : "Quarantined: \(count(.quarantined)). Parked: \(count(.parked))."
    }

    var summary: VisibleText {
        let waiting = states.values.reduce(0, +)
        let words = HandlerStatus.State.allCases.filter { count($0) > 0 }.map {
            "\(count($0)) \($0.rawValue)"
        }
        let ends = outcomes.map { "\($0.count) \($0.word)" }
        return """
            Not ended: \(waiting)\(Self.list(words))\(Self.shown(shownWaiting, of: waiting)).
            Ended: \(ended)\(Self.list(ends))\(Self.shown(shownEnded, of: ended)). The store keeps the end of a handler, and neither its binding nor its arguments.
            """
    }

    private static func list(_ words: [String]) -> String {
        words.isEmpty ? "" : " (" + words.joined(separator: ", ") + ")"
    }

    private static func shown(_ shown: Int, of all: Int64) -> String {
        shown < all ? "; the newest \(shown) are shown, --limit N shows N" : ""
    }
}
