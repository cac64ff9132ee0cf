/// Where the time of a wake goes, as a table for a person.
struct WakeTable {
    private let ours: WakeSeries
    private let others: WakeSeries

    init(ours: WakeSeries, others: WakeSeries) {
        self.ours = ours
        self.others = others
    }

    var text: String {
        let title = ["a wake, in ms", "p50", "p99", "the server's", "slixmpp p50", "p99", "the server's"]
        let parts = Wake.Part.allCases.map { part in
            [part.rawValue] + cells(ours, part) + cells(others, part)
        }
        let total = ["exec to exit"] + cells(ours.totals) + [""] + cells(others.totals) + [""]
        let trips =
            ["round trips to the session", trips(ours), "", "", trips(others), "", ""]
        let count = ["wakes", "\(ours.totals.count)", "", "", "\(others.totals.count)", "", ""]
        return AlignedText.lines([title] + parts + [total, trips, count])
    }

    private func cells(_ series: WakeSeries, _ part: Wake.Part) -> [String] {
        // Who does not tell connecting from TLS has both in the line of TLS.
        guard let times = series.parts[part] else { return ["", "", ""] }
        return cells(times) + [series.server[part].map { Decimal.text($0.percentile(50), 1) } ?? ""]
    }

    private func cells(_ times: [Double]) -> [String] {
        [Decimal.text(times.percentile(50), 1), Decimal.text(times.percentile(99), 1)]
    }

    private func trips(_ series: WakeSeries) -> String {
        let counts = Set(series.roundTrips).sorted()
        guard let least = counts.first, let most = counts.last else { return "" }
        return least == most ? "\(least)" : "\(least) to \(most)"
    }
}
