import CSQLite

/// SQLite without the library around it: another program that has the file open.
package final class RawConnection {
    package struct Failure: Error { package var message: String }

    let database: OpaquePointer

    package init(_ path: String) throws {
        var database: OpaquePointer?
        guard sqlite3_open(path, &database) == SQLITE_OK, let database else {
            throw Failure(message: "cannot open \(path)")
        }
        self.database = database
        // Another process that looks at the file in the meantime is gone within this time.
        sqlite3_busy_timeout(database, 60_000)
    }

    deinit { sqlite3_close(database) }

    var failure: Failure { Failure(message: String(cString: sqlite3_errmsg(database))) }

    package func run(_ sql: String) throws {
        guard sqlite3_exec(database, sql, nil, nil, nil) == SQLITE_OK else { throw failure }
    }
}
