import Handlers

/// The statements of steps, and those outside of them.
extension PostgresConnection {
    func execute(_ sql: String, binding values: [SQLValue]) throws(HandlerError) -> Int {
        try result(of: sql, values)?.changedRows ?? 0
    }

    func write(_ sql: String, binding values: [SQLValue]) throws(HandlerError) {
        guard mode == .optimistic, isOpen else { return _ = try execute(sql, binding: values) }
        let statement = try prepared(sql)
        let encoded = try statement.encode(values)
        try using("running '\(sql)'") { (link) throws(PostgresError) in try link.send(statement, encoded) }
    }

    func run(
        _ sql: String, binding values: [SQLValue], _ row: (borrowing Row) throws(HandlerError) -> Bool
    ) throws(HandlerError) {
        guard let result = try result(of: sql, values) else { return }
        for index in 0..<result.rowCount where try !row(Row(result.row(index, of: sql))) { return }
    }

    /// Runs a statement and waits for its result.
    func result(of sql: String, _ values: [SQLValue]) throws(HandlerError) -> PostgresResult? {
        guard isOpen else { return try resultOnce(of: sql, values) }
        guard mode == .careful, !isReader else {
            let statement = try prepared(sql)
            let encoded = try statement.encode(values)
            return try using("running '\(sql)'") { (link) throws(PostgresError) in
                try link.send(statement, encoded)
                return try link.receive()
            }
        }
        // A statement that fails leaves the transaction as it was, as with SQLite.
        try control("SAVEPOINT statement")
        do throws(HandlerError) {
            let result = try resultOfFresh(sql, values)
            try control("RELEASE SAVEPOINT statement")
            return result
        } catch {
            if repetition == nil {
                try control("ROLLBACK TO SAVEPOINT statement")
                try control("RELEASE SAVEPOINT statement")
            }
            throw error
        }
    }

    /// Runs a statement, and prepares it again where its tables have changed since.
    private func resultOfFresh(_ sql: String, _ values: [SQLValue]) throws(HandlerError) -> PostgresResult? {
        var isStale = false
        for _ in 0..<2 {
            let statement = try prepared(sql)
            let encoded = try statement.encode(values)
            let result = try using("running '\(sql)'") { (link) throws(PostgresError) in
                do throws(PostgresError) {
                    try link.send(statement, encoded)
                    return try link.receive()
                } catch {
                    guard error.isStale, !isStale else { throw error }
                    isStale = true
                    link.forget(sql)
                    try link.send("ROLLBACK TO SAVEPOINT statement")
                    try link.receive()
                    return nil
                }
            }
            if let result { return result }
        }
        return nil
    }

    /// The prepared statement of a common text, which is noted as one that writes.
    private func prepared(_ sql: String) throws(HandlerError) -> PostgresStatement {
        guard PostgresText.kind(sql) != .controlsTransaction else {
            throw HandlerError(
                .sql,
                "a step or a read keeps its own transaction, so '\(sql)' is not allowed in it; throw an error to undo a step"
            )
        }
        let statement = try using("preparing '\(sql)'") { (link) throws(PostgresError) in
            try link.statement(sql)
        }
        if statement.kind == .writes {
            guard !isReader else {
                throw HandlerError(.sql, "a snapshot only reads, and '\(sql)' writes; run it in a step")
            }
            noteWrite()
        }
        return statement
    }

    /// Runs a statement in a transaction of its own.
    private func resultOnce(of sql: String, _ values: [SQLValue]) throws(HandlerError) -> PostgresResult? {
        _ = try connected()
        let statement = try using("preparing '\(sql)'") { (link) throws(PostgresError) in
            try link.statement(sql)
        }
        let encoded = try statement.encode(values)
        return try using("running '\(sql)'") { (link) throws(PostgresError) in
            try link.send(statement, encoded)
            return try link.receive(isLast: true)
        }
    }

    /// Runs a statement in a transaction of its own, and waits for nothing: whether it fails is not learned.
    func sendOnce(_ sql: String, _ values: [any SQLConvertible]) throws(HandlerError) {
        _ = try connected()
        let statement = try using("preparing '\(sql)'") { (link) throws(PostgresError) in
            try link.statement(sql)
        }
        let encoded = try statement.encode(values.map(\.sqlValue))
        try using("sending '\(sql)'") { (link) throws(PostgresError) in
            try link.send(statement, encoded)
            try link.endUnawaited()
        }
    }

    func runOnce(
        _ sql: String, binding values: [SQLValue], _ row: (borrowing Row) throws(HandlerError) -> Bool
    ) throws(HandlerError) {
        try run(sql, binding: values, row)
    }

    func runScript(_ sql: String, of place: String) throws(HandlerError) {
        noteWrite()
        try using("running \(place)") { (link) throws(PostgresError) in
            try link.run(script: PostgresText.translated(sql))
        }
    }

    // MARK: Notifications

    /// The descriptor of its socket, which can be read when a notification comes; negative without a connection.
    var descriptor: Int32 { link?.descriptor ?? -1 }

    /// The texts of the notifications that have come, for a connection that is between two statements.
    func takeNotifications() throws(HandlerError) -> [String] {
        try using("waiting for notifications") { (link) throws(PostgresError) in
            try link.takeNotifications()
        }
    }
}
