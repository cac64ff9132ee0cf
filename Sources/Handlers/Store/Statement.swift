import CSQLite

/// One prepared statement; finalized when it goes.
final class Statement {
    private let pointer: OpaquePointer
    private let database: OpaquePointer

    init(_ sql: String, in database: OpaquePointer) throws(HandlerError) {
        var pointer: OpaquePointer?
        // Persistent: these statements live as long as the connection.
        let code = sqlite3_prepare_v3(database, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &pointer, nil)
        guard code == SQLITE_OK, let pointer else {
            throw sqliteError(database, code: code, doing: "preparing '\(sql)'")
        }
        self.pointer = pointer
        self.database = database
    }

    deinit { sqlite3_finalize(pointer) }

    func bind(_ values: [any SQLConvertible]) throws(HandlerError) {
        let expected = Int(sqlite3_bind_parameter_count(pointer))
        guard values.count == expected else {
            throw HandlerError(
                .sql,
                "the statement '\(String(cString: sqlite3_sql(pointer)))' has \(expected) parameters, but \(values.count) values were given"
            )
        }
        for (index, value) in values.enumerated() { try bind(value.sqlValue, at: Int32(index + 1)) }
    }

    private func bind(_ value: SQLValue, at index: Int32) throws(HandlerError) {
        let code =
            switch value {
            case .null: sqlite3_bind_null(pointer, index)
            case .integer(let value): sqlite3_bind_int64(pointer, index, value)
            case .real(let value): sqlite3_bind_double(pointer, index, value)
            case .text(var value):
                value.withUTF8 { utf8 in
                    utf8.withMemoryRebound(to: CChar.self) {
                        dh_bind_text(pointer, index, $0.baseAddress ?? emptyText, Int32($0.count))
                    }
                }
            case .blob(let bytes):
                bytes.withUnsafeBytes { buffer in
                    buffer.isEmpty
                        ? sqlite3_bind_zeroblob(pointer, index, 0)
                        : dh_bind_blob(pointer, index, buffer.baseAddress, Int32(buffer.count))
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
            throw sqliteError(
                database, code: code, doing: "running '\(String(cString: sqlite3_sql(pointer)))'")
        }
    }

    func reset() { sqlite3_reset(pointer) }

    var row: Row { Row(pointer) }
}

private nonisolated(unsafe) let emptyText: UnsafePointer<CChar> = {
    // Never written to and never freed: the address that stands for an empty string.
    let pointer = UnsafeMutablePointer<CChar>.allocate(capacity: 1)
    pointer.pointee = 0
    return UnsafePointer(pointer)
}()

/// One row of a result, lent to the closure that reads it.
public struct Row: ~Copyable {
    private let statement: OpaquePointer

    fileprivate init(_ statement: OpaquePointer) { self.statement = statement }

    /// Whether the column holds NULL. Columns count from 0.
    public func isNull(_ column: Int) -> Bool { sqlite3_column_type(statement, Int32(column)) == SQLITE_NULL }

    /// The column as an integer; 0 for NULL.
    public func integer(_ column: Int) -> Int64 { sqlite3_column_int64(statement, Int32(column)) }

    /// The column as a number; 0 for NULL.
    public func real(_ column: Int) -> Double { sqlite3_column_double(statement, Int32(column)) }

    /// The column as text; empty for NULL.
    public func text(_ column: Int) -> String {
        guard let text = sqlite3_column_text(statement, Int32(column)) else { return "" }
        let count = Int(sqlite3_column_bytes(statement, Int32(column)))
        return String(decoding: UnsafeBufferPointer(start: text, count: count), as: UTF8.self)
    }

    /// The column as bytes; empty for NULL.
    public func blob(_ column: Int) -> [UInt8] {
        guard let bytes = sqlite3_column_blob(statement, Int32(column)) else { return [] }
        return [UInt8](
            UnsafeRawBufferPointer(start: bytes, count: Int(sqlite3_column_bytes(statement, Int32(column)))))
    }

    /// The column as an integer; nil for NULL.
    public func optionalInteger(_ column: Int) -> Int64? { isNull(column) ? nil : integer(column) }

    /// The column as text; nil for NULL.
    public func optionalText(_ column: Int) -> String? { isNull(column) ? nil : text(column) }
}
