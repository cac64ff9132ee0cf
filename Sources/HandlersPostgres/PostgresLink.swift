import CPostgres
import Handlers
import Platform

/// One connection of libpq in pipeline mode: commands are sent one after the other, and their results are awaited when needed.
///
/// An error ends the pipeline: what was sent after it is not done.
final class PostgresLink {
    /// The number of commands after which their results are awaited: more could fill the buffers of both sides.
    private static let longestPipeline = 200
    /// The same for the bytes of their values.
    private static let largestPipeline = 256 << 10
    /// The number of pipelines of which nobody awaits the results, until they are read.
    private static let longestSkip = 64
    /// The number of prepared statements, of which each takes memory of the server. A program has a fixed set of them; only one that
    /// builds SQL from values gets here.
    private static let statementLimit = 2000

    private let connection: OpaquePointer
    /// How long an answer may take, in milliseconds.
    private let answerLimit: Int32
    private var statements: [ForeignText: PostgresStatement] = [:]
    /// The statements that were prepared, for names.
    private var prepared = 0
    /// The commands whose results were not received.
    private var awaited = 0
    private var awaitedBytes = 0
    /// The pipelines that were ended without waiting for their results.
    private var skipped = 0
    /// Whether the connection cannot be used any more.
    private(set) var isLost = false

    /// When the server was started, in microseconds; another server has another time.
    var serverStart: Int64 = 0

    /// Whether the server has warned that a commit may not be on the standby.
    private(set) var hasWarned = false

    /// Connects.
    ///
    /// - Parameters:
    ///   - settings: Names and values of libpq, of which the later ones count; a `dbname` may be a whole connection string.
    ///   - limit: How long an answer may take.
    init(_ settings: [PostgresOption], answerLimit limit: Duration) throws(PostgresError) {
        let connection = PostgresOption.withPointers(settings) { PQconnectdbParams($0, $1, 1) }
        guard let connection else {
            throw PostgresError(state: "", message: "there is no memory for a connection")
        }
        self.connection = connection
        answerLimit = Int32(clamping: limit.milliseconds)
        guard PQstatus(connection) == CONNECTION_OK, PQenterPipelineMode(connection) == 1 else {
            throw lost()
        }
        // Other messages of the server, such as those of DROP TABLE IF EXISTS, are nothing for a program's standard error.
        PQsetNoticeReceiver(
            connection,
            { me, result in
                guard let me, PostgresLink.isAboutStandby(result) else { return }
                Unmanaged<PostgresLink>.fromOpaque(me).takeUnretainedValue().hasWarned = true
            }, Unmanaged.passUnretained(self).toOpaque())
    }

    deinit { PQfinish(connection) }

    /// Whether a warning says that a commit's wait for the standby was ended, so that it is not known to be there. Its code is that of any
    /// other warning, such as one of a trigger; the routine that words it is its own, in every language.
    private static func isAboutStandby(_ warning: OpaquePointer?) -> Bool {
        guard let state = PQresultErrorField(warning, dh_pq_error_state),
            ["01000", "57P01"].contains(String(cString: state))
        else { return false }
        // Without the routine the commit is doubted, which settles it.
        guard let routine = PQresultErrorField(warning, dh_pq_error_routine) else { return true }
        return String(cString: routine) == "SyncRepWaitForLSN"
    }

    /// The number of the server's version: 150004 for 15.4.
    var serverVersion: Int32 { PQserverVersion(connection) }

    /// The process of the server that serves this connection.
    var backend: Int32 { PQbackendPID(connection) }

    /// The descriptor of its socket, for waits.
    var descriptor: Int32 { PQsocket(connection) }

    /// A setting that the server reports by itself, such as `in_hot_standby`.
    func reported(_ setting: String) -> String? {
        PQparameterStatus(connection, setting).map { String(cString: $0) }
    }

    private func lost() -> PostgresError {
        isLost = true
        return PostgresError(state: "", message: String(cString: PQerrorMessage(connection)).trimmed)
    }

    // MARK: Statements

    /// The prepared statement of a common text.
    func statement(_ sql: String) throws(PostgresError) -> PostgresStatement {
        if let known = statements[ForeignText(sql)] { return known }
        if statements.count >= Self.statementLimit { try forgetStatements() }
        prepared += 1
        let name = "s\(prepared)"
        guard PQsendPrepare(connection, name, PostgresText.numbered(sql), 0, nil) == 1 else { throw lost() }
        awaited += 1
        guard PQsendDescribePrepared(connection, name) == 1 else { throw lost() }
        awaited += 1
        let types = try receive()?.parameterTypes ?? []
        let statement = PostgresStatement(
            sql, name: name, kind: PostgresText.kind(sql), parameters: types)
        statements[ForeignText(sql)] = statement
        return statement
    }

    /// Forgets all statements, between two transactions, as when tables may have changed.
    func startAgain() throws(PostgresError) {
        try forgetStatements()
        // By itself: it fixes a snapshot, after which the next transaction could not choose its isolation.
        try receive(isLast: true)
    }

    /// Forgets all statements.
    private func forgetStatements() throws(PostgresError) {
        statements = [:]
        try send("DEALLOCATE ALL")
    }

    /// Forgets a statement whose tables have changed.
    func forget(_ sql: String) { statements[ForeignText(sql)] = nil }

    // MARK: The pipeline

    /// Sends a prepared statement with its values in the forms of ``PostgresStatement/encode(_:)``.
    func send(_ statement: PostgresStatement, _ values: PostgresValues) throws(PostgresError) {
        let isSent = values.withPointers { pointers, lengths, formats in
            PQsendQueryPrepared(
                connection, statement.name, Int32(lengths.count), pointers, lengths, formats, 1)
        }
        guard isSent == 1 else { throw lost() }
        awaited += 1
        awaitedBytes += values.count
        if awaited >= Self.longestPipeline || awaitedBytes >= Self.largestPipeline { _ = try receive() }
    }

    /// Sends a command that is not prepared.
    func send(_ command: String) throws(PostgresError) {
        guard PQsendQueryParams(connection, command, 0, nil, nil, nil, nil, 1) == 1 else { throw lost() }
        awaited += 1
    }

    /// Runs several commands, outside of the pipeline.
    func run(script: String) throws(PostgresError) {
        _ = try receive()
        try readSkipped()
        guard PQexitPipelineMode(connection) == 1 else { throw lost() }
        defer { if PQenterPipelineMode(connection) != 1 { isLost = true } }
        guard PQsendQuery(connection, script) == 1 else { throw lost() }
        var error: PostgresError?
        while let result = try next() { error = error ?? result.error }
        if let error { throw checked(error) }
    }

    /// Waits for the results of all that was sent.
    ///
    /// - Parameters:
    ///   - isLast: Whether nothing that follows belongs to it: outside of a transaction each command commits so.
    ///   - read: Called with each result that is no error, in order.
    /// - Returns: The result of the last command; nil when nothing was sent.
    @discardableResult
    func receive(
        isLast: Bool = false, read: (PostgresResult) -> Void = { _ in }
    ) throws(PostgresError) -> PostgresResult? {
        guard !isLost else { throw lost() }
        guard awaited > 0 else { return nil }
        awaitedBytes = 0
        let isFlushed = isLast ? PQpipelineSync(connection) : PQsendFlushRequest(connection)
        guard isFlushed == 1, PQflush(connection) >= 0 else { throw lost() }
        try readSkipped()
        var last: PostgresResult?
        while awaited > 0 {
            guard let result = try next() else { throw lost() }
            awaited -= 1
            // The end of the results of this command.
            guard try next() == nil else { throw lost() }
            last = result
            guard let error = result.error else {
                read(result)
                continue
            }
            if !isLast, PQpipelineSync(connection) != 1 { throw lost() }
            try endPipeline()
            throw checked(error)
        }
        if isLast { try endPipeline() }
        return last
    }

    /// Rolls the transaction back.
    func undo() throws(PostgresError) {
        try send("ROLLBACK")
        try receive(isLast: true)
    }

    /// Ends the pipeline and waits for nothing: whether its commands fail is not learned.
    func endUnawaited() throws(PostgresError) {
        guard awaited > 0 else { return }
        guard PQpipelineSync(connection) == 1, PQflush(connection) >= 0 else { throw lost() }
        (awaited, awaitedBytes) = (0, 0)
        skipped += 1
        // The server stops when nobody reads what it answers.
        if skipped >= Self.longestSkip { try readSkipped() }
    }

    private func readSkipped() throws(PostgresError) {
        while skipped > 0 {
            try skipToSync()
            skipped -= 1
        }
    }

    /// Skips to the end of the pipeline, which was sent: what follows a failed command is not done.
    private func endPipeline() throws(PostgresError) {
        try skipToSync()
        awaited = 0
    }

    private func skipToSync() throws(PostgresError) {
        while try next()?.status != PGRES_PIPELINE_SYNC {
            if PQstatus(connection) != CONNECTION_OK { throw lost() }
        }
    }

    private func checked(_ error: PostgresError) -> PostgresError {
        if error.isLost || PQstatus(connection) != CONNECTION_OK { isLost = true }
        return error
    }

    /// The next result; nil between the results of two commands.
    private func next() throws(PostgresError) -> PostgresResult? {
        while PQisBusy(connection) == 1 {
            guard PollEntry.waitReadable(descriptor, milliseconds: answerLimit) else {
                isLost = true
                throw PostgresError(
                    state: "",
                    message:
                        "the server has not answered for \(answerLimit / 1000) s, as when a commit waits for a synchronous standby that is away"
                )
            }
            guard PQconsumeInput(connection) == 1 else { throw lost() }
        }
        return PQgetResult(connection).map { PostgresResult(owning: $0) }
    }

    // MARK: Messages of others

    /// Reads what has arrived, and returns the texts of the notifications among it. Nothing may be awaited.
    func takeNotifications() throws(PostgresError) -> [String] {
        try readSkipped()
        guard PQconsumeInput(connection) == 1, PQstatus(connection) == CONNECTION_OK else { throw lost() }
        var texts: [String] = []
        while let notification = PQnotifies(connection) {
            texts.append(String(cString: notification.pointee.extra))
            PQfreemem(notification)
        }
        return texts
    }
}
