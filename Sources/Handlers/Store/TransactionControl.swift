import CSQLite

/// The statements that begin and end transactions, which no one else may run on the connection.
///
/// A handler that ran COMMIT or ROLLBACK would part its writes from its ending, so SQLite's authorizer refuses
/// such statements while ``isRefused`` is set.
final class TransactionControl {
    enum Command: Int, CaseIterable {
        case begin, beginReading, commit, rollBack, savepoint, release, rollBackToSavepoint

        var sql: String {
            switch self {
            case .begin: "BEGIN IMMEDIATE"
            case .beginReading: "BEGIN"
            case .commit: "COMMIT"
            case .rollBack: "ROLLBACK"
            case .savepoint: "SAVEPOINT handler"
            case .release: "RELEASE handler"
            case .rollBackToSavepoint: "ROLLBACK TO handler"
            }
        }
    }

    private let database: OpaquePointer
    @exclusivity(unchecked) private var statements = [Statement?](
        repeating: nil, count: Command.allCases.count)
    /// Set while a statement of the application is prepared.
    var isRefused = false

    init(_ database: OpaquePointer) {
        self.database = database
        // Unretained: the connection owns both this object and the handle, and closes the handle first.
        sqlite3_set_authorizer(
            database,
            { context, action, _, _, _, _ in
                guard action == SQLITE_TRANSACTION || action == SQLITE_SAVEPOINT, let context else {
                    return SQLITE_OK
                }
                let control = Unmanaged<TransactionControl>.fromOpaque(context).takeUnretainedValue()
                return control.isRefused ? SQLITE_DENY : SQLITE_OK
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    func run(_ command: Command) throws(HandlerError) {
        let statement = try prepared(command)
        defer { statement.reset() }
        while try statement.step() {}
    }

    /// Prepares a statement ahead.
    func prepare(_ command: Command) throws(HandlerError) { _ = try prepared(command) }

    private func prepared(_ command: Command) throws(HandlerError) -> Statement {
        if let statement = statements[command.rawValue] { return statement }
        let statement = try Statement(command.sql, in: database)
        statements[command.rawValue] = statement
        return statement
    }

    /// Lets go of the statements, before the connection closes.
    func finalize() { statements.removeAll() }
}
