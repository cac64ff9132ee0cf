import CPostgres
import Handlers

/// An error that PostgreSQL reports, with its code.
struct PostgresError: Error {
    /// The SQLSTATE, five characters; empty where the connection is lost.
    let state: String
    let message: String
    /// The table whose rule was broken.
    var table: String? = nil

    /// Whether two transactions stood in each other's way, so that one of them runs again.
    var isConflict: Bool { ["40001", "40P01"].contains(state) }
    /// Whether others held a lock for too long.
    var isLocked: Bool { state == "55P03" }
    /// Whether the connection cannot be used any more: it is lost, or its server goes away or lost its rights to write.
    var isLost: Bool { state.isEmpty || state.hasPrefix("57P") || state.hasPrefix("08") }
    /// Whether the step's node was fenced: others have taken it for dead.
    var isFenced: Bool { state == "23502" && table == "node_step" }
    /// Whether a table may have changed since a statement was prepared, or the statement is gone. The first of both codes is also that of
    /// what a server cannot do; then it is prepared once more for nothing.
    var isStale: Bool { state == "0A000" || state == "26000" }
    /// Whether another process has just made the same table.
    var isAlreadyMade: Bool { ["23505", "42P07", "42710"].contains(state) }

    /// As an error of the store that says what to do.
    ///
    /// - Parameter path: Names the database.
    func handlerError(_ path: String, doing: String) -> HandlerError {
        switch state.prefix(2) {
        case _ where isConflict:
            HandlerError(
                .databaseLocked,
                "other steps kept changing the same rows of \(path) while this one was \(doing) (\(message)); run it again, or let one program write them"
            )
        case _ where isLocked:
            HandlerError(
                .databaseLocked,
                "the database \(path) is locked by another process; wait for it, or stop the process that holds a transaction open"
            )
        case _ where isFenced:
            HandlerError(
                .databaseUnavailable,
                "the machines that share \(path) took this process for dead, because it did not answer for a while; run the step again"
            )
        case _ where isLost:
            HandlerError(
                .databaseUnavailable,
                "the database \(path) cannot be reached (\(message)); check that its server runs and accepts connections"
            )
        // 25001 is a statement that runs outside of transactions only, such as VACUUM.
        case "25" where state != "25001":
            HandlerError(
                .databaseReadOnly,
                "the database \(path) only reads while \(doing) (\(message)); connect to the primary server"
            )
        case "42" where state == "42501":
            HandlerError(
                .databaseReadOnly,
                "the role has no permission for \(doing) in \(path) (\(message)); grant it, or connect as the owner of the tables"
            )
        case "53":
            HandlerError(
                .storageFailed,
                "the server of \(path) has no room left for \(doing) (\(message)); free disk, memory or connections there"
            )
        case "58", "XX":
            HandlerError(
                .databaseCorrupt,
                "the server of \(path) failed while \(doing) (\(message)); look at its log, and promote a standby or restore a backup if files are damaged"
            )
        default:
            HandlerError(
                .sql, "PostgreSQL refused \(doing): \(message) (code \(state))",
                cause: state == "23503" ? ForeignKeyViolation() : nil)
        }
    }

    /// The error of a connection that was not made, of which only the text is known.
    ///
    /// - Parameter verifies: Whether the server has to show a certificate.
    func connectionError(_ path: String, verifies: Bool) -> HandlerError {
        let certificate =
            verifies
            ? "; name the certificate of its authority as sslrootcert and its own name as host, renew a certificate that has expired, and let the server ask for scram-sha-256; only another explicit sslmode takes less"
            : ""
        return HandlerError(
            .databaseUnavailable,
            "the database \(path) cannot be reached (\(message)); check that its server runs and accepts connections, and check its user, password and database in the connection string\(certificate). Nothing was changed"
        )
    }
}
