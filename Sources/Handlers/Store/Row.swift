import CSQLite

/// A row of a result, lent to the closure that reads it.
///
/// ```swift
/// let notes = try step.all("SELECT id, text FROM note") { row in (row.integer(0), row.text(1)) }
/// ```
///
/// Columns count from 0 in the order of the statement. A value of another storage class
/// is converted as SQLite does.
public struct Row: ~Copyable {
    private enum Source {
        case statement(OpaquePointer)
        /// Of an engine that hands whole rows over.
        case values([SQLValue])
    }

    private let source: Source

    /// - Parameter statement: A statement of SQLite that stands on the row.
    init(_ statement: OpaquePointer) { source = .statement(statement) }

    /// - Parameter values: The columns.
    package init(_ values: [SQLValue]) { source = .values(values) }

    /// Returns whether a column holds NULL.
    ///
    /// - Parameter column: The column, from 0.
    /// - Returns: Whether it holds NULL.
    public func isNull(_ column: Int) -> Bool {
        switch source {
        case .statement(let statement): sqlite3_column_type(statement, Int32(column)) == SQLITE_NULL
        case .values(let values): values[column] == .null
        }
    }

    /// Returns a column as an integer.
    ///
    /// - Parameter column: The column, from 0.
    /// - Returns: The value; 0 for NULL.
    public func integer(_ column: Int) -> Int64 {
        switch source {
        case .statement(let statement): sqlite3_column_int64(statement, Int32(column))
        case .values(let values): values[column].asInteger
        }
    }

    /// Returns a stored time, duration or count.
    ///
    /// A database may be damaged, or altered by hand. No value that is read so can make a sum, a difference or a thousandfold
    /// overflow; what lies beyond ±2^52 (142 000 years in milliseconds) is brought to that.
    package func quantity(_ column: Int) -> Int64 {
        min(max(integer(column), -Self.largestQuantity), Self.largestQuantity)
    }

    /// Returns the same, or nil for NULL.
    package func optionalQuantity(_ column: Int) -> Int64? { isNull(column) ? nil : quantity(column) }

    /// Returns a stored duration, or a point in connected time.
    package func duration(_ column: Int) -> Duration { .milliseconds(quantity(column)) }

    /// Returns the same, or nil for NULL.
    package func optionalDuration(_ column: Int) -> Duration? { isNull(column) ? nil : duration(column) }

    private static var largestQuantity: Int64 { 1 << 52 }

    /// A column as a point in time, stored as milliseconds since 1970, UTC.
    ///
    /// - Parameter column: The column, from 0.
    /// - Returns: The time, at most 142 000 years from 1970; 1970 for NULL.
    public func timestamp(_ column: Int) -> Timestamp { Timestamp(milliseconds: quantity(column)) }

    /// A column as a point in time, or nil.
    ///
    /// - Parameter column: The column, from 0.
    /// - Returns: The time; nil for NULL.
    package func optionalTimestamp(_ column: Int) -> Timestamp? { isNull(column) ? nil : timestamp(column) }

    /// Returns a column as a number.
    ///
    /// - Parameter column: The column, from 0.
    /// - Returns: The value; 0 for NULL.
    public func real(_ column: Int) -> Double {
        switch source {
        case .statement(let statement): sqlite3_column_double(statement, Int32(column))
        case .values(let values): values[column].asReal
        }
    }

    /// Returns a column as text.
    ///
    /// - Parameter column: The column, from 0.
    /// - Returns: The value, with what is no UTF-8 replaced; empty for NULL.
    public func text(_ column: Int) -> String {
        switch source {
        case .statement(let statement):
            guard let text = sqlite3_column_text(statement, Int32(column)) else { return "" }
            let count = Int(sqlite3_column_bytes(statement, Int32(column)))
            return String(decoding: UnsafeBufferPointer(start: text, count: count), as: UTF8.self)
        case .values(let values): return values[column].asText
        }
    }

    /// Returns a column as bytes.
    ///
    /// - Parameter column: The column, from 0.
    /// - Returns: The value; empty for NULL.
    public func blob(_ column: Int) -> [UInt8] {
        switch source {
        case .statement(let statement):
            guard let bytes = sqlite3_column_blob(statement, Int32(column)) else { return [] }
            return [UInt8](
                UnsafeRawBufferPointer(
                    start: bytes, count: Int(sqlite3_column_bytes(statement, Int32(column)))))
        case .values(let values): return values[column].asBlob
        }
    }

    /// Returns a column with its storage class; nil for a text that is no UTF-8.
    package func value(_ column: Int) -> SQLValue? {
        guard case .statement(let statement) = source else {
            guard case .values(let values) = source else { return nil }
            return values[column]
        }
        switch sqlite3_column_type(statement, Int32(column)) {
        case SQLITE_INTEGER: return .integer(integer(column))
        case SQLITE_FLOAT: return .real(real(column))
        case SQLITE_BLOB: return .blob(blob(column))
        case SQLITE_TEXT:
            guard let text = sqlite3_column_text(statement, Int32(column)) else { return .text("") }
            let count = Int(sqlite3_column_bytes(statement, Int32(column)))
            return String(validating: UnsafeBufferPointer(start: text, count: count), as: UTF8.self)
                .map { .text($0) }
        default: return .null
        }
    }

    /// Returns a column as an integer, or nil.
    ///
    /// - Parameter column: The column, from 0.
    /// - Returns: The value; nil for NULL.
    public func optionalInteger(_ column: Int) -> Int64? { isNull(column) ? nil : integer(column) }

    /// Returns a column as text, or nil.
    ///
    /// - Parameter column: The column, from 0.
    /// - Returns: The value; nil for NULL.
    public func optionalText(_ column: Int) -> String? { isNull(column) ? nil : text(column) }
}

/// Conversions of a value to another storage class, as SQLite does them.
extension SQLValue {
    fileprivate var asInteger: Int64 {
        switch self {
        case .null: 0
        case .integer(let integer): integer
        case .real(let real):
            real.isNaN ? 0 : Int64(exactly: real.rounded(.towardZero)) ?? (real < 0 ? .min : .max)
        case .text, .blob: Int64(leading(of: "+-0123456789")) ?? 0
        }
    }

    fileprivate var asReal: Double {
        switch self {
        case .null: 0
        case .integer(let integer): Double(integer)
        case .real(let real): real
        case .text, .blob: Double(leading(of: "+-.eE0123456789")) ?? 0
        }
    }

    fileprivate var asText: String {
        switch self {
        case .null: ""
        case .integer(let integer): String(integer)
        case .real(let real): String(real)
        case .text(let text): text
        case .blob(let bytes): String(decoding: bytes, as: UTF8.self)
        }
    }

    fileprivate var asBlob: [UInt8] {
        switch self {
        case .null: []
        case .blob(let bytes): bytes
        default: Array(asText.utf8)
        }
    }

    /// The part of a text with which a number may begin.
    private func leading(of characters: String) -> String {
        String(asText.drop { $0 == " " }.prefix(while: characters.contains))
    }
}
