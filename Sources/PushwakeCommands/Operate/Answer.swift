import FoundationEssentials
package import Handlers
package import XMPPCore

/// The form of an answer on standard output.
package enum AnswerFormat: String, CaseIterable {
    /// A table for people.
    case text
    /// One object with the rows, on one line.
    case json
    /// Each row as one object on a line of its own.
    case jsonl
    /// Comma-separated values (RFC 4180), with the names of the columns first.
    case csv
}

/// A row of an answer.
package protocol AnswerRow: Encodable {
    /// The names of its members in JSON, in the order of the columns of CSV.
    static var columns: [String] { get }
    /// Its cells in a table for people.
    var cells: [TextTable.Cell] { get }
}

/// Writes the rows of an answer in a form. Rows of `jsonl` and `csv` are written as they come, so that any number needs little memory.
package struct AnswerWriter<Row: AnswerRow> {
    private let format: AnswerFormat
    private let store: String
    private let style: TerminalStyle
    private let say: (VisibleText) -> Void
    private var rows: [Row] = []
    private var hasHeader = false

    package init(
        _ format: AnswerFormat, store: String, _ style: TerminalStyle, _ say: @escaping (VisibleText) -> Void
    ) {
        (self.format, self.store, self.style, self.say) = (format, store, style, say)
    }

    package mutating func add(_ new: [Row]) throws {
        switch format {
        case .text, .json: rows += new
        case .jsonl: for row in new { say(VisibleText(json: try OperatorJSON.text(row))) }
        case .csv:
            if !hasHeader { say(VisibleText(Row.columns.joined(separator: ","))) }
            hasHeader = true
            for row in new { say(VisibleText(try Self.line(row))) }
        }
    }

    /// Ends the answer.
    ///
    /// - Parameters:
    ///   - now: The time of the last read.
    ///   - next: What to put behind `--after` for the next rows; nil when these were all.
    ///   - none: What a person is told where there are no rows.
    package mutating func end(_ now: Timestamp, next: String? = nil, none: VisibleText) throws {
        switch format {
        case .text:
            if rows.isEmpty {
                return say(next == nil ? none : "\(none) so far; --after \(next ?? "") goes on")
            }
            for line in TextTable(rows, \.cells).lines(width: style.width) { say(VisibleText(line)) }
            if let next { say(style.faint("more follow: --after \(next), or --limit N")) }
        case .json:
            let whole = Whole(format: 1, store: store, at: "\(now)", rows: rows, next: next)
            say(VisibleText(json: try OperatorJSON.text(whole)))
        case .jsonl: break
        case .csv: try add([])
        }
    }

    private struct Whole: Encodable {
        let format: Int
        let store: String
        let at: String
        let rows: [Row]
        let next: String?
    }

    // MARK: CSV

    private static func line(_ row: Row) throws -> String {
        let json = try JSONDecoder().decode(JSONValue.self, from: Data(OperatorJSON.text(row).utf8))
        guard case .object(let members) = json else { return "" }
        return try Row.columns.map { try cell(members[$0] ?? .null) }.joined(separator: ",")
    }

    private static func cell(_ value: JSONValue) throws -> String {
        switch value {
        case .null: return ""
        case .string(let text):
            // A spreadsheet would take it for a formula.
            let safe = text.first.map { "=+-@".contains($0) } ?? false ? "'" + text : text
            guard safe.contains(where: { ",\"\n\r".contains($0) }) else { return safe }
            return "\"" + safe.replacing("\"", with: "\"\"") + "\""
        case .array, .object:
            return "\"" + (try OperatorJSON.text(value)).replacing("\"", with: "\"\"") + "\""
        default: return try OperatorJSON.text(value)
        }
    }
}

/// JSON of answers: on one line, with sorted keys, which are written as they are: keys of arguments are not ours.
package enum OperatorJSON {
    package static func text(_ value: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }
}
