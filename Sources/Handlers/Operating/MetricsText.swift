/// Metrics in the text format of Prometheus (version 0.0.4).
///
/// ```swift
/// var text = MetricsText()
/// text.add("durable_handlers", .gauge, "Handlers by state.", [(["state": "pending"], 12)])
/// ```
package struct MetricsText {
    package enum Kind: String {
        case counter, gauge, histogram
    }

    /// The text so far: whole lines.
    package private(set) var text = ""

    package init() {}

    /// Adds a metric; nothing without samples.
    ///
    /// - Parameters:
    ///   - help: What is measured, on one line.
    ///   - samples: The values, each with its labels.
    package mutating func add(
        _ name: String, _ kind: Kind, _ help: String, _ samples: [(labels: [String: String], value: Double)]
    ) {
        if samples.isEmpty { return }
        head(name, kind, help)
        for (labels, value) in samples { line(name, labels, value) }
    }

    package mutating func add(
        _ name: String, _ help: String, _ histograms: [(labels: [String: String], Durations)]
    ) {
        if histograms.isEmpty { return }
        head(name, .histogram, help)
        for (labels, durations) in histograms {
            var seen: Int64 = 0
            for (index, count) in durations.counts.enumerated() {
                seen &+= count
                let bound =
                    index < Durations.bounds.count ? "\(Self.seconds(Durations.bounds[index]))" : "+Inf"
                line(name + "_bucket", labels.merging(["le": bound]) { $1 }, Double(seen))
            }
            line(name + "_sum", labels, durations.sum / .seconds(1))
            line(name + "_count", labels, Double(seen))
        }
    }

    /// A bound as Prometheus writes it: without a part of zeros.
    private static func seconds(_ microseconds: Int64) -> String {
        let seconds = Double(microseconds) / 1_000_000
        return seconds == seconds.rounded() ? "\(Int64(seconds))" : "\(seconds)"
    }

    private mutating func head(_ name: String, _ kind: Kind, _ help: String) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind.rawValue)\n"
    }

    private mutating func line(_ name: String, _ labels: [String: String], _ value: Double) {
        let list = labels.sorted { $0.key < $1.key }.map { "\($0.key)=\"\(Self.escaped($0.value))\"" }
        let number = value == value.rounded() && abs(value) < 1e15 ? "\(Int64(value))" : "\(value)"
        text += name + (list.isEmpty ? "" : "{\(list.joined(separator: ","))}") + " \(number)\n"
    }

    /// Names of handlers and lanes may hold anything.
    private static func escaped(_ text: String) -> String {
        text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"").replacing("\n", with: "\\n")
    }
}

extension ReadableStore where Self: ~Copyable {
    /// Returns metrics of the store in the text format of Prometheus: what waits now, and what all processes have counted since the store
    /// was made.
    ///
    /// ```swift
    /// let text = try store.read { try $0.metrics() }   // the body of an answer to GET /metrics
    /// ```
    ///
    /// - Returns: The text, of at most 200 names of handlers and 100 lanes. It holds no arguments, keys and addresses.
    /// - Throws: ``HandlerError`` with the codes of the store.
    /// - Complexity: In the number of handlers in lanes, and of those that are not pending.
    public func metrics() throws(HandlerError) -> String {
        var text = MetricsText()
        try addCounters(to: &text)
        try addStates(to: &text)
        try addLanes(to: &text)
        try addTimers(to: &text)
        return text.text
    }

    private func addCounters(to text: inout MetricsText) throws(HandlerError) {
        let total = try totalActivity().sorted { $0.key < $1.key }
        text.add(
            "durable_handlers_bound_total", .counter, "Handlers that were bound.",
            total.map { (["handler": $0.key], Double($0.value.bound)) })
        text.add(
            "durable_handlers_ended_total", .counter, "Handlers that ended, by outcome.",
            total.flatMap { name, activity in
                Outcome.allCases.map { (["handler": name, "outcome": "\($0)"], Double(activity.ended($0))) }
            })
        text.add(
            "durable_handlers_failures_total", .counter,
            "Calls that failed, by what became of the handler.",
            total.flatMap { name, activity in
                [
                    ("retried", activity.retried), ("parked", activity.parked),
                    ("quarantined", activity.quarantined), ("invalidated", activity.invalidatedAfterFailure),
                ].map { (["handler": name, "result": $0.0], Double($0.1)) }
            })
        text.add(
            "durable_handlers_wait_duration_seconds",
            "Time for which a handler was due until a runner called it.",
            total.filter { $0.value.waits.count > 0 }.map { (["handler": $0.key], $0.value.waits) })
        text.add(
            "durable_handlers_run_duration_seconds", "Time of one call of an async handler.",
            total.filter { $0.value.runs.count > 0 }.map { (["handler": $0.key], $0.value.runs) })
        text.add(
            "durable_handlers_dropped_calls", .gauge,
            "Quarantined calls that newer ones replaced, since the store was made.",
            try droppedCalls().map { (["handler": $0.name], Double($0.calls)) })
    }

    private func addStates(to text: inout MetricsText) throws(HandlerError) {
        let all = try first("SELECT count(*) FROM handler", read: { $0.quantity(0) }) ?? 0
        let counts = try self.all(
            """
            SELECT state, count(*) FROM handler WHERE state <> \(Transaction.State.pending.sql) GROUP BY state ORDER BY state
            """
        ) { (state: $0.integer(0), count: $0.quantity(1)) }
        let others: [(labels: [String: String], value: Double)] = HandlerStatus.State.allCases.filter {
            $0 != .pending
        }.map { state in
            let count = counts.first { $0.state == state.stored.rawValue }?.count ?? 0
            return (["state": state.rawValue], Double(count))
        }
        let pending = Double(all) - others.reduce(0) { $0 + $1.value }
        text.add(
            "durable_handlers", .gauge, "Handlers that have not ended, by state.",
            [(["state": "pending"], pending)] + others)
        let now = now
        let late = try oldestDue().map { (now - $0) / .seconds(1) } ?? 0
        text.add(
            "durable_handlers_oldest_due_age_seconds", .gauge,
            "How long the oldest due handler has been due; 0 if none is.", [([:], max(0, late))])
    }

    private func addLanes(to text: inout MetricsText) throws(HandlerError) {
        let lanes = try lanes().prefix(100)
        func add(_ name: String, _ help: String, _ value: (LaneStatus) -> Int?) {
            text.add(
                "durable_handlers_lane_\(name)", .gauge, help,
                lanes.compactMap { lane in value(lane).map { (["lane": lane.name], Double($0)) } })
        }
        add("running", "Handlers with a place in a lane.") { $0.running }
        add("waiting", "Handlers that wait in a lane.") { $0.waiting }
        add("places", "Places of a lane; absent without a limit.") { $0.rule.concurrency }
        add("paused", "1 while a lane is paused.") { $0.isPaused ? 1 : 0 }
    }

    private func addTimers(to text: inout MetricsText) throws(HandlerError) {
        let next = try all(
            """
            SELECT name, min(due) FROM handler
            WHERE id IN (SELECT handler FROM calendar WHERE is_paused = 0) AND due IS NOT NULL GROUP BY name ORDER BY name
            """
        ) { (name: $0.text(0), due: $0.timestamp(1)) }
        text.add(
            "durable_handlers_calendar_next_timestamp_seconds", .gauge,
            "The earliest next time of the timers of a handler that follow a calendar.",
            next.map { (["handler": $0.name], Double($0.due.milliseconds) / 1000) })
    }
}
