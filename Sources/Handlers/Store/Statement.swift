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
        guard code == SQLITE_OK else {
            throw preparingError(database, code: code, doing: "preparing '\(sql)'")
        }
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
                throw SQLValue.refusalOfNaN(place: Int(index), of: sql)
            case .real(let value): sqlite3_bind_double(pointer, index, value)
            case .text(let value): try bind(value, at: index)
            case .blob(let bytes):
                bytes.withUnsafeBytes { buffer in
                    buffer.isEmpty
                        ? sqlite3_bind_zeroblob(pointer, index, 0)
                        : dh_bind_blob(pointer, index, buffer.baseAddress, Int32(clamping: buffer.count))
                }
            }
        guard code == SQLITE_OK else { throw sqliteError(database, code: code, doing: "binding a value") }
    }

    private func bind(_ text: String, at index: Int32) throws(HandlerError) -> Int32 {
        var text = text
        let code = text.withUTF8 { utf8 -> Int32? in
            if utf8.contains(0) { return nil }
            // A length beyond Int32 is clamped to one that SQLite refuses as too big.
            return utf8.withMemoryRebound(to: CChar.self) {
                dh_bind_text(pointer, index, $0.baseAddress ?? emptyText, Int32(clamping: $0.count))
            }
        }
        guard let code else { throw SQLValue.refusalOfNUL(place: Int(index), of: sql) }
        return code
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
