/// Rows of cells under each other: the first column to the left, numbers to the right.
enum AlignedText {
    static func lines(_ rows: [[String]], isNumber: (Int) -> Bool = { $0 > 0 }) -> String {
        let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            row.indices.map { column in
                let space = String(repeating: " ", count: widths[column] - row[column].count)
                return isNumber(column) ? space + row[column] : row[column] + space
            }.joined(separator: "  ")
        }.joined(separator: "\n")
    }
}

/// Numbers with a fixed count of decimals.
enum Decimal {
    /// - Parameter count: 0, 1 or 2.
    static func text(_ value: Double, _ count: Int) -> String {
        let scale = [1, 10, 100][count]
        let scaled = Int((value * Double(scale)).rounded())
        guard count > 0 else { return "\(scaled)" }
        let fraction = "\(abs(scaled) % scale)"
        return (scaled < 0 ? "-" : "") + "\(abs(scaled) / scale)."
            + String(repeating: "0", count: count - fraction.count) + fraction
    }
}
