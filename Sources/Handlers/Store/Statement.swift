import CSQLite

/// One prepared statement; finalized when it goes.
final class Statement {
    /// Its text.
    let sql: String
    private let pointer: OpaquePointer
    private let database: OpaquePointer
    /// Whether the statement only reads.
    let isReadOnly: Bool
    /// Set by the cache while someone reads rows from it.
    var isInUse = false

    init(_ sql: String, in database: OpaquePointer, isPersistent: Bool = true) throws(HandlerError) {
        var pointer: OpaquePointer?
        var hasMore = false
        var sqlCopy = sql
        let code = sqlCopy.withUTF8 { text in
            text.withMemoryRebound(to: CChar.self) { text -> Int32 in
                var tail: UnsafePointer<CChar>?
                let flags = UInt32(isPersistent ? SQLITE_PREPARE_PERSISTENT : 0)
                let code = sqlite3_prepare_v3(
                    database, text.baseAddress, Int32(clamping: text.count), flags, &pointer, &tail)
                if code == SQLITE_OK, let tail, let start = text.baseAddress {
                    hasMore = Self.holdsStatement(text[(tail - start)...], in: database)
                }
                return code
            }
        }
        guard code == SQLITE_OK else { throw sqliteError(database, code: code, doing: "preparing '\(sql)'") }
        guard let pointer, !hasMore else {
            sqlite3_finalize(pointer)
            throw HandlerError(
                .sql, "'\(sql)' is not one statement; run each in a call of its own, so that none is left out"
            )
        }
        self.sql = sql
        self.pointer = pointer
        self.database = database
        isReadOnly = sqlite3_stmt_readonly(pointer) != 0
    }

    deinit { sqlite3_finalize(pointer) }

    /// Returns whether `text` has more than spaces, semicolons and comments.
    private static func holdsStatement(
        _ text: Slice<UnsafeBufferPointer<CChar>>, in database: OpaquePointer
    ) -> Bool {
        var rest = text
        while let start = UnsafeBufferPointer(rebasing: rest).baseAddress, !rest.isEmpty {
            var pointer: OpaquePointer?
            var tail: UnsafePointer<CChar>?
            let code = sqlite3_prepare_v3(database, start, Int32(clamping: rest.count), 0, &pointer, &tail)
            sqlite3_finalize(pointer)
            guard code == SQLITE_OK, pointer == nil, let tail, tail > start else { return true }
            rest = rest.dropFirst(tail - start)
        }
        return false
    }

    func bind(_ values: [any SQLConvertible]) throws(HandlerError) {
        let expected = Int(sqlite3_bind_parameter_count(pointer))
        guard values.count == expected else {
            throw HandlerError(
                .sql,
                "the statement '\(sql)' has \(expected) parameters, but \(values.count) values were given"
            )
        }
        for index in values.indices { try bind(values[index].sqlValue, at: Int32(index + 1)) }
    }

    private func bind(_ value: SQLValue, at index: Int32) throws(HandlerError) {
        let code =
            switch value {
            case .null: sqlite3_bind_null(pointer, index)
            case .integer(let value): sqlite3_bind_int64(pointer, index, value)
            case .real(let value) where value.isNaN:
                // SQLite would store NULL without a word.
                throw HandlerError(
                    .argumentNotEncodable,
                    "value \(index) of '\(sql)' is not a number; store NULL if that is meant")
            case .real(let value): sqlite3_bind_double(pointer, index, value)
            // A length beyond Int32 is clamped to one that SQLite refuses as too big.
            case .text(var value):
                value.withUTF8 { utf8 in
                    utf8.withMemoryRebound(to: CChar.self) {
                        dh_bind_text(pointer, index, $0.baseAddress ?? emptyText, Int32(clamping: $0.count))
                    }
                }
            case .blob(let bytes):
                bytes.withUnsafeBytes { buffer in
                    buffer.isEmpty
                        ? sqlite3_bind_zeroblob(pointer, index, 0)
                        : dh_bind_blob(pointer, index, buffer.baseAddress, Int32(clamping: buffer.count))
                }
            }
        guard code == SQLITE_OK else { throw sqliteError(database, code: code, doing: "binding a value") }
    }

    /// Advances to the next row. Returns false at the end.
    func step() throws(HandlerError) -> Bool {
        let code = sqlite3_step(pointer)
        switch code {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        default:
            throw sqliteError(database, code: code, doing: "running '\(sql)'")
        }
    }

    /// Makes the statement ready to run again and lets go of the values bound to it.
    func reset() {
        sqlite3_reset(pointer)
        sqlite3_clear_bindings(pointer)
        isInUse = false
    }

    var row: Row { Row(pointer) }
}

private nonisolated(unsafe) let emptyText: UnsafePointer<CChar> = {
    // Never written to and never freed: the address that stands for an empty string.
    let pointer = UnsafeMutablePointer<CChar>.allocate(capacity: 1)
    pointer.pointee = 0
    return UnsafePointer(pointer)
}()

/// A row of a result, lent to the closure that reads it.
///
/// ```swift
/// let notes = try step.all("SELECT id, text FROM note") { row in (row.integer(0), row.text(1)) }
/// ```
///
/// Columns count from 0 in the order of the statement. A value of another storage class
/// is converted as SQLite does.
public struct Row: ~Copyable {
    private let statement: OpaquePointer

    fileprivate init(_ statement: OpaquePointer) { self.statement = statement }

    /// Returns whether a column holds NULL.
    ///
    /// - Parameter column: The column, from 0.
    /// - Returns: Whether it holds NULL.
    public func isNull(_ column: Int) -> Bool { sqlite3_column_type(statement, Int32(column)) == SQLITE_NULL }

    /// Returns a column as an integer.
    ///
    /// - Parameter column: The column, from 0.
    /// - Returns: The value; 0 for NULL.
    public func integer(_ column: Int) -> Int64 { sqlite3_column_int64(statement, Int32(column)) }

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
    public func real(_ column: Int) -> Double { sqlite3_column_double(statement, Int32(column)) }

    /// Returns a column as text.
    ///
    /// - Parameter column: The column, from 0.
    /// - Returns: The value, with what is no UTF-8 replaced; empty for NULL.
    public func text(_ column: Int) -> String {
        guard let text = sqlite3_column_text(statement, Int32(column)) else { return "" }
        let count = Int(sqlite3_column_bytes(statement, Int32(column)))
        return String(decoding: UnsafeBufferPointer(start: text, count: count), as: UTF8.self)
    }

    /// Returns a column as bytes.
    ///
    /// - Parameter column: The column, from 0.
    /// - Returns: The value; empty for NULL.
    public func blob(_ column: Int) -> [UInt8] {
        guard let bytes = sqlite3_column_blob(statement, Int32(column)) else { return [] }
        return [UInt8](
            UnsafeRawBufferPointer(start: bytes, count: Int(sqlite3_column_bytes(statement, Int32(column)))))
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
