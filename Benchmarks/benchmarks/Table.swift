/// The lines as a table for a person.
struct Table {
    private struct Column: Sendable {
        let title: String
        var isNumber = false
        let text: @Sendable (Line) -> String
    }

    private static let columns = [
        Column(title: "benchmark") { $0.name },
        Column(title: "ours", isNumber: true) { decimals($0.ours, $0.ours < 1000 ? 1 : 0) },
        Column(title: "reference", isNumber: true) { decimals($0.reference, $0.reference < 1000 ? 1 : 0) },
        Column(title: "unit") { $0.unit },
        Column(title: "ratio", isNumber: true) { decimals($0.ratio, 2) },
        Column(title: "goal", isNumber: true) { decimals($0.goal, 2) },
        Column(title: "") { $0.ratio < $0.goal ? "below" : "reached" },
        Column(title: "compared with") { $0.referenceName },
    ]

    let text: String

    init(_ lines: [Line]) {
        let rows = [Self.columns.map(\.title)] + lines.map { line in Self.columns.map { $0.text(line) } }
        let widths = Self.columns.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        text = rows.map { row in
            zip(Self.columns, zip(row, widths)).map { column, cell in
                let space = String(repeating: " ", count: cell.1 - cell.0.count)
                return column.isNumber ? space + cell.0 : cell.0 + space
            }.joined(separator: "  ")
        }.joined(separator: "\n")
    }

    private static func decimals(_ value: Double, _ count: Int) -> String {
        let scale = [1, 10, 100][count]
        let scaled = Int((value * Double(scale)).rounded())
        guard count > 0 else { return "\(scaled)" }
        let fraction = "\(scaled % scale)"
        return "\(scaled / scale)." + String(repeating: "0", count: count - fraction.count) + fraction
    }
}
