/// The lines as a table for a person.
struct Table {
    private struct Column: Sendable {
        let title: String
        var isNumber = false
        let text: @Sendable (Line) -> String
    }

    private static let columns = [
        Column(title: "benchmark") { $0.name },
        Column(title: "ours", isNumber: true) { Decimal.text($0.ours, $0.ours < 1000 ? 1 : 0) },
        Column(title: "reference", isNumber: true) {
            Decimal.text($0.reference, $0.reference < 1000 ? 1 : 0)
        },
        Column(title: "unit") { $0.unit },
        Column(title: "ratio", isNumber: true) { Decimal.text($0.ratio, 2) },
        Column(title: "goal", isNumber: true) { Decimal.text($0.goal, 2) },
        Column(title: "") { $0.ratio < $0.goal ? "below" : "reached" },
        Column(title: "compared with") { $0.referenceName },
    ]

    let text: String

    init(_ lines: [Line]) {
        let rows = [Self.columns.map(\.title)] + lines.map { line in Self.columns.map { $0.text(line) } }
        text = AlignedText.lines(rows) { Self.columns[$0].isNumber }
    }
}
