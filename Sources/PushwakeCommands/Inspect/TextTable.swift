import XMPPCore

/// A table of plain text that fits the terminal. Some columns may be narrowed. If that is not enough, each row becomes several
/// lines.
package struct TextTable {
    package struct Column {
        package var name: String
        package var isNumber = false
        /// The minimum width; nil for a column of fixed width.
        package var least: Int?
    }

    /// The text of a row in one column.
    package struct Cell {
        fileprivate let column: Column
        fileprivate let text: String

        package static func text(_ name: String, _ text: String?, least: Int? = nil) -> Cell {
            Cell(column: Column(name: name, least: least), text: text ?? "")
        }

        package static func number(_ name: String, _ number: (some BinaryInteger)?) -> Cell {
            Cell(column: Column(name: name, isNumber: true), text: number.map { "\($0)" } ?? "")
        }

        /// - Parameter other: The text if there is no time.
        package static func span(_ name: String, _ milliseconds: Int64?, or other: String = "") -> Cell {
            Cell(column: Column(name: name, isNumber: true), text: milliseconds.map(Span.text) ?? other)
        }
    }

    private static let gap = 2

    package let columns: [Column]
    package private(set) var rows: [[String]] = []

    package init(_ columns: [Column]) { self.columns = columns }

    /// Makes the table of rows that each have the same columns.
    init<Row>(_ rows: [Row], _ cells: (Row) -> [Cell]) {
        let cells = rows.map(cells)
        self.init(cells.first?.map(\.column) ?? [])
        for row in cells { add(row.map(\.text)) }
    }

    /// - Parameter cells: One text for each column. Characters that would break a line or control the terminal are made visible.
    package mutating func add(_ cells: [String]) {
        precondition(cells.count == columns.count)
        rows.append(cells.map(Self.oneLine))
    }

    /// - Parameter width: The number of characters on a line; nil for no limit.
    package func lines(width: Int?) -> [String] {
        guard let widths = widths(within: width ?? .max) else { return records(width: width ?? .max) }
        let header = line(columns.map(\.name), widths)
        return [header] + rows.map { line($0, widths) }
    }

    // MARK: Widths

    /// - Returns: Nil when the table cannot be narrow enough.
    private func widths(within limit: Int) -> [Int]? {
        var widths = columns.indices.map { index in
            ([columns[index].name] + rows.map { $0[index] }).map(Self.width(of:)).max() ?? 0
        }
        let gaps = Self.gap * (columns.count - 1)
        // The widest column is narrowed first.
        while widths.reduce(gaps, +) > limit {
            let shrinking = columns.indices.filter { widths[$0] > columns[$0].least ?? .max }
            guard let widest = shrinking.max(by: { widths[$0] < widths[$1] }) else { return nil }
            widths[widest] -= 1
        }
        return widths
    }

    private func line(_ cells: [String], _ widths: [Int]) -> String {
        let padded = cells.indices.map { index in
            let text = Self.shortened(cells[index], to: widths[index])
            let space = String(repeating: " ", count: max(0, widths[index] - Self.width(of: text)))
            return columns[index].isNumber ? space + text : text + space
        }
        var line = padded.joined(separator: String(repeating: " ", count: Self.gap))
        while line.last == " " { line.removeLast() }
        return line
    }

    /// Returns each row as lines `name  value`, with a dash before the first.
    private func records(width: Int) -> [String] {
        rows.flatMap { row in
            let fields = columns.indices.filter { !row[$0].isEmpty }.map { (columns[$0].name, row[$0]) }
            let lines = Self.fields(fields, width: width - 2)
            return lines.enumerated().map { ($0.offset == 0 ? "- " : "  ") + $0.element }
        }
    }

    /// Returns lines `name  value`, with long values continued below.
    package static func fields(_ fields: [(name: String, value: String)], width: Int?) -> [String] {
        let names = fields.map { Self.width(of: $0.name) }.max() ?? 0
        let room = max(8, (width ?? .max) - names - gap)
        let indent = String(repeating: " ", count: names + gap)
        return fields.flatMap { name, value in
            broken(oneLine(value), at: room).enumerated().map { place, part in
                place == 0 ? name + indent.dropFirst(Self.width(of: name)) + part : indent + part
            }
        }
    }

    // MARK: Text

    /// The maximum number of shown code points of a value. `--json` shows the whole value.
    private static let cellLimit = 4096

    private static func oneLine(_ text: String) -> String {
        let part = text.unicodeScalars.prefix(cellLimit)
        return part.endIndex == text.endIndex
            ? VisibleText(text).description : VisibleText(String(part) + "…").description
    }

    private static func shortened(_ text: String, to limit: Int) -> String {
        guard width(of: text) > limit else { return text }
        return fitting(text[...], max(1, limit - 1)) + "…"
    }

    /// - Returns: Parts of the text that fit. They end at a space if the second half of a line has one.
    private static func broken(_ text: String, at limit: Int) -> [String] {
        var parts: [String] = []
        var rest = text[...]
        while case let whole = fitting(rest, limit), whole.endIndex != rest.endIndex {
            // A line that is full at the end of a word ends there.
            let end = rest[whole.endIndex] == " " ? whole.endIndex : whole.lastIndex(of: " ")
            let space = end.flatMap { width(of: String(whole[..<$0])) * 2 > limit ? $0 : nil }
            parts.append(String(whole[..<(space ?? whole.endIndex)]))
            rest = rest[(space.map { rest.index(after: $0) } ?? whole.endIndex)...]
        }
        return parts + [String(rest)]
    }

    /// Returns as much of the start as fits, and at least one character.
    private static func fitting(_ text: Substring, _ limit: Int) -> Substring {
        var used = 0
        let end = text.indices.dropFirst().first { index in
            used += width(of: text[text.index(before: index)])
            return used + width(of: text[index]) > limit
        }
        return text[..<(end ?? text.endIndex)]
    }

    package static func width(of text: String) -> Int { text.reduce(0) { $0 + width(of: $1) } }

    /// East Asian letters and emoji are two columns wide on a terminal.
    private static func width(of character: Character) -> Int {
        switch character.unicodeScalars.first?.value ?? 0 {
        case 0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F,
            0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1FAFF, 0x20000...0x3FFFD:
            2
        default: 1
        }
    }
}
