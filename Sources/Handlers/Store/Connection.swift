/// The connection of a store, a reader or a step, whatever its engine is.
///
/// `execute`, `first` and `all` run inside a transaction only; outside one they throw instead of committing on their own.
final class Connection {
    // Looked at by each statement, and never while it changes.
    @exclusivity(unchecked) private(set) var engine: any SQLConnection
    /// The same where it is SQLite's, which the compiler calls directly: a step runs a dozen statements.
    @exclusivity(unchecked) private var file: SQLiteConnection?
    /// The number of calls of each handler stored since the store was opened, and whether too many waited at the last count.
    var waitingCalls: [Name: (count: Int, isCrowded: Bool)] = [:]
    /// The runs of workflows that are suspended in this process.
    let keptRuns = KeptRuns()
    /// The failure of the storage after which the open transaction cannot commit.
    // Looked at by each statement, and never while it changes.
    @exclusivity(unchecked) private(set) var failure: HandlerError?

    init(_ engine: any SQLConnection) {
        self.engine = engine
        file = engine as? SQLiteConnection
    }

    var path: String { engine.path }

    /// Goes on with another connection to the same database.
    func replaceEngine(_ engine: any SQLConnection) {
        self.engine = engine
        file = engine as? SQLiteConnection
        failure = nil
    }

    // MARK: The transaction

    /// Begins a transaction with the lock for writing.
    func begin() throws(HandlerError) {
        failure = nil
        try engine.begin()
    }

    /// Begins a transaction that only reads.
    func beginReading() throws(HandlerError) {
        failure = nil
        try engine.beginReading()
    }

    /// Commits, unless the storage failed in between.
    func commit() throws(HandlerError) {
        try checkUsable()
        try engine.commit()
    }

    /// Gives the transaction up, if there is one.
    func rollBack() { engine.rollBack() }

    /// Opens a savepoint; they nest, and the two below mean the innermost.
    func savepoint() throws(HandlerError) {
        try guarding { () throws(HandlerError) in
            if let file { try file.savepoint() } else { try engine.savepoint() }
        }
    }

    func release() throws(HandlerError) {
        try guarding { () throws(HandlerError) in
            if let file { try file.release() } else { try engine.release() }
        }
    }

    /// Undoes what was written since the innermost savepoint and closes it.
    func undo() throws(HandlerError) {
        try guarding { () throws(HandlerError) in
            if let file { try file.undo() } else { try engine.undo() }
        }
    }

    /// Whether the transaction can still commit.
    var isUsable: Bool { failure == nil && isInTransaction }

    private var isInTransaction: Bool { file?.isInTransaction ?? engine.isInTransaction }

    /// Whether a deferred foreign key would refuse the commit now.
    var hasUnresolvedForeignKeys: Bool { file?.hasUnresolvedForeignKeys ?? engine.hasUnresolvedForeignKeys }

    private func checkUsable() throws(HandlerError) {
        if let failure { throw failure }
        guard isInTransaction else {
            throw HandlerError(
                .storageFailed,
                "the transaction in \(path) was given up by the database; nothing of this step is kept, run it again"
            )
        }
    }

    /// Remembers a failure of the storage, so that code that ignores the error cannot commit half of a step.
    @inline(__always) private func guarding<R>(_ body: () throws(HandlerError) -> R) throws(HandlerError) -> R
    {
        do {
            try checkUsable()
            return try body()
        } catch { throw remembered(error) }
    }

    private func remembered(_ error: HandlerError) -> HandlerError {
        if failure == nil, error.isStorageFailure { failure = error }
        return error
    }

    // MARK: Statements of a step

    #if DEBUG || Failpoints
        /// Refuses rows, as an engine does whose limits nobody thought of: tests show that such a row costs only itself.
        var refuses: ((_ sql: String, _ values: [SQLValue]) -> ErrorCode<HandlerError>?)?
    #endif

    @inline(__always) private func refuse(
        _ sql: String, _ values: [any SQLConvertible]
    ) throws(HandlerError) {
        #if DEBUG || Failpoints
            guard let code = refuses?(sql, values.map(\.sqlValue)) else { return }
            throw HandlerError(code, "'\(sql)' is refused, as a fault that is built in on purpose")
        #endif
    }

    @discardableResult
    func execute(_ sql: String, _ values: [any SQLConvertible] = []) throws(HandlerError) -> Int {
        try guarding { () throws(HandlerError) in
            try refuse(sql, values)
            if let file { return try file.execute(sql, values) }
            return try engine.execute(sql, binding: values.map(\.sqlValue))
        }
    }

    func first<T>(
        _ sql: String, _ values: [any SQLConvertible] = [], _ read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> T? {
        var result: T?
        try run(sql, values) { (row) throws(HandlerError) in
            result = try read(row)
            return false
        }
        return result
    }

    func all<T>(
        _ sql: String, _ values: [any SQLConvertible] = [], _ read: (borrowing Row) throws(HandlerError) -> T
    ) throws(HandlerError) -> [T] {
        var result: [T] = []
        try run(sql, values) { (row) throws(HandlerError) in
            result.append(try read(row))
            // Of a statement that `read` has run.
            if let failure { throw failure }
            return true
        }
        return result
    }

    @inline(__always) private func run(
        _ sql: String, _ values: [any SQLConvertible], _ row: (borrowing Row) throws(HandlerError) -> Bool
    ) throws(HandlerError) {
        // What a reader throws is no failure of the storage, whatever its code says.
        var isReading = false
        func read(_ lent: borrowing Row) throws(HandlerError) -> Bool {
            isReading = true
            let goesOn = try row(lent)
            isReading = false
            return goesOn
        }
        do {
            try checkUsable()
            if let file {
                try file.run(sql, values, read)
            } else {
                try engine.run(sql, binding: values.map(\.sqlValue), read)
            }
        } catch {
            throw isReading ? error : remembered(error)
        }
    }

    /// Changes a row that this transaction has read.
    ///
    /// - Returns: Whether it was still there. An engine whose transactions run side by side ends the one that finds it gone, so it
    ///   does not wait for the answer.
    func changeRow(_ sql: String, _ values: [any SQLConvertible]) throws(HandlerError) -> Bool {
        if file == nil {
            try write(sql, values)
            return true
        }
        return try execute(sql, values) == 1
    }

    /// Runs a statement whose count nobody needs, so that it may travel with those that follow.
    func write(_ sql: String, _ values: [any SQLConvertible] = []) throws(HandlerError) {
        try guarding { () throws(HandlerError) in
            try refuse(sql, values)
            if let file {
                try file.write(sql, values)
            } else {
                try engine.write(sql, binding: values.map(\.sqlValue))
            }
        }
    }

    /// Inserts one row by `INSERT INTO table(columns) VALUES (…)` into a table with a column `id`, which the statement does not name.
    ///
    /// - Returns: The row's id.
    func insert(_ sql: String, _ values: [any SQLConvertible]) throws(HandlerError) -> Int64 {
        try guarding { () throws(HandlerError) in
            try refuse(sql, values)
            if let file {
                try file.write(sql, values)
                return file.lastInsertedRow
            }
            return try engine.insert(sql, binding: values.map(\.sqlValue))
        }
    }

    var lastInsertedRow: Int64 {
        get throws(HandlerError) {
            if let file { return file.lastInsertedRow }
            return try guarding { () throws(HandlerError) in try engine.lastInsertedRow }
        }
    }
}
