import CSQLite
import Platform

/// `SQLITE_CORRUPT_VTAB`, a macro that Swift does not see.
private let corruptVirtualTable = SQLITE_CORRUPT | 1 << 8

/// Turns a SQLite result code into an error that says what to do.
func sqliteError(_ database: OpaquePointer?, code: Int32, doing: String, path: String? = nil) -> HandlerError
{
    let place =
        path ?? database.flatMap { sqlite3_db_filename($0, nil) }.map { String(cString: $0) }
        ?? "the database"
    let detail = database.map { String(cString: sqlite3_errmsg($0)) } ?? String(cString: sqlite3_errstr(code))
    // SQLite's "busy" also means that a statement of this very connection is still running.
    let isOwnLock = code & 0xff == SQLITE_BUSY && detail.hasSuffix("SQL statements in progress")
    return switch isOwnLock ? SQLITE_LOCKED : code & 0xff {
    case SQLITE_BUSY, SQLITE_PROTOCOL:
        HandlerError(
            .databaseLocked,
            "the database \(place) is locked by another process; wait for it, or stop the process that holds a write transaction open"
        )
    case SQLITE_READONLY, SQLITE_PERM: readOnlyError(place, detail)
    // A damaged full-text index spoils no other table, and the transaction goes on.
    case SQLITE_CORRUPT where code != corruptVirtualTable, SQLITE_NOTADB:
        HandlerError(
            .databaseCorrupt,
            "the file \(place) is damaged or no SQLite database (\(detail)); restore it from a copy, or move it away to start again"
        )
    case SQLITE_CANTOPEN:
        cannotOpen(place, Errno(rawValue: database.map { sqlite3_system_errno($0) } ?? 0), detail)
    case _ where isOfLockedDevice(database, code): .protected(place)
    case SQLITE_FULL, SQLITE_IOERR, SQLITE_NOMEM:
        HandlerError(
            .storageFailed,
            "the database \(place) could not be written while \(doing) (\(detail)); free space or check the disk"
        )
    default:
        HandlerError(
            .sql, "SQLite refused \(doing): \(detail) (code \(code))",
            cause: code == ForeignKeyViolation.code ? ForeignKeyViolation() : nil)
    }
}

/// The same while SQL is read, in which this library refuses to start or end a transaction.
func preparingError(_ database: OpaquePointer?, code: Int32, doing: String) -> HandlerError {
    guard code == SQLITE_AUTH else { return sqliteError(database, code: code, doing: doing) }
    return HandlerError(
        .sql,
        "a step or a read keeps its own transaction, so \(doing) is not allowed in it; throw an error to undo a step"
    )
}

/// Whether Apple's SQLite was refused a file that is encrypted while the device is locked.
private func isOfLockedDevice(_ database: OpaquePointer?, _ code: Int32) -> Bool {
    // `SQLITE_IOERR_AUTH`, a macro that Swift does not see.
    if code == SQLITE_AUTH || code == SQLITE_IOERR | 28 << 8 { return true }
    guard code & 0xff == SQLITE_IOERR, let database else { return false }
    return Errno(rawValue: sqlite3_system_errno(database)).meansLockedDevice
}

/// A statement would have left a row whose foreign key leads nowhere.
package struct ForeignKeyViolation: Error {
    package init() {}

    /// `SQLITE_CONSTRAINT_FOREIGNKEY`, a macro that Swift does not see.
    static let code = SQLITE_CONSTRAINT | 3 << 8
}

func cannotOpen(_ path: String, _ error: Errno, _ detail: String = "") -> HandlerError {
    switch error {
    case _ where error.meansLockedDevice: .protected(path)
    case .permissionDenied, .readOnlyFileSystem, .notPermitted: readOnlyError(path, error.description)
    case .noSpace, .diskQuotaExceeded, .ioError:
        HandlerError(
            .storageFailed,
            "the database \(path) could not be opened (\(error)); free space or check the disk")
    default:
        HandlerError(
            .databaseUnavailable,
            "the database '\(path)' cannot be opened (\(error.rawValue == 0 ? detail : error.description)); check that its folder exists and that it is a file"
        )
    }
}

func readOnlyError(_ path: String, _ reason: String) -> HandlerError {
    HandlerError(
        .databaseReadOnly,
        "the database \(path) cannot be written (\(reason)); check its permissions and those of its folder")
}
