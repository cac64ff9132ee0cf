import Handlers
import Platform

/// A connection to a database of PostgreSQL, which is opened again when it is lost.
///
/// ## Optimistic, then careful
///
/// Round trips and savepoints are what a step costs here. So a step runs without savepoints at first, and writes travel with the
/// next read or with the commit. Where that is not enough, because a statement fails or a part is to be undone after it has written, the
/// transaction is rolled back and the step runs once more, carefully: each statement is awaited, and savepoints are set.
///
/// Steps of all stores of a database run one after the other, as with SQLite: each takes a lock in the server with its first
/// statement, and gives it back when it is committed. Otherwise a handler that is bound for a key and a signal with that key could
/// miss each other: neither step would see what the other is about to commit.
///
/// While there are other nodes, a step gives the lock back before its commit is on the standby: it commits without waiting, and a
/// second, empty commit on the same connection then waits for the log up to there. So the waits of several nodes overlap. A step counts
/// as committed only after that, and one that builds on it lies behind it in the log.
final class PostgresConnection: SQLConnection {
    enum Mode {
        case optimistic, careful
    }

    /// How often a step is run again because programs other than stores changed the same rows.
    private static let conflictLimit = 30
    /// Commits nothing, after all that was committed before.
    private static let awaitLog =
        "SELECT pg_catalog.pg_logical_emit_message(true, 'durable-handlers'::text, ''::text)"

    let path: String
    let options: PostgresSettings
    let isReader: Bool
    var link: PostgresLink?
    /// Whether a server that fits was reached, also by another connection, so that one that is away is waited for.
    private var wasConnected: Bool
    private(set) var mode = Mode.optimistic
    /// Why the step that failed is to be run again.
    private(set) var repetition: Repetition?
    private var conflicts = 0
    var isOpen = false
    /// Whether the open step is known to have written something.
    private(set) var hasWritten = false
    /// The savepoints of the open step, and whether something was written since each.
    private var savepoints: [Bool] = []
    /// For ``insert(_:binding:)``.
    var drawnIDs = DrawnIDs()
    /// The store's node, which fences its steps; nil for a connection that has none.
    var node: NodeLoop?
    /// The number of the node by which the connection is called.
    private var calledNumber: Int?
    /// Tables that are there.
    var knownTables: Set<Name> = []
    /// The node's number in the open step.
    private(set) var openNumber = 0
    /// The number of the step that commits.
    private(set) var step: Int64 = 0
    /// The newest step that is committed, and its node.
    private(set) var committed: (node: Int, step: Int64)?
    /// The server that is known to have all commits of this process.
    var verifiedServer: Int64?
    /// How often a server was found that lacks some of them.
    var losses = 0
    /// Called with a description of each of these.
    var reportLoss: (String) -> Void = { _ in }

    enum Repetition {
        case carefully, afterConflict, onNewConnection, asNewNode, withNewStatements
    }

    init(_ options: PostgresSettings, isReader: Bool, wasConnected: Bool = false) {
        path = options.name
        self.wasConnected = wasConnected
        self.options = options
        self.isReader = isReader
    }

    // MARK: Connecting

    /// The connection to the server, made if there is none.
    func connected() throws(HandlerError) -> PostgresLink {
        if let link, !link.isLost { return link }
        drawnIDs.forget()
        knownTables = []
        link = nil
        calledNumber = nil
        let new = try wasConnected ? reconnect() : options.connect(isReader: isReader)
        wasConnected = true
        link = new
        return new
    }

    /// Connects again, and waits while no server takes it, as while a standby is promoted.
    private func reconnect() throws(HandlerError) -> PostgresLink {
        let end = ContinuousClock.now + options.outageLimit
        while true {
            do throws(HandlerError) {
                return try options.connect(isReader: isReader)
            } catch {
                guard error.isStorageFailure, ContinuousClock.now < end else { throw error }
                SystemThread.sleep(microseconds: 100_000)
            }
        }
    }

    func using<R>(
        _ doing: @autoclosure () -> String, _ body: (PostgresLink) throws(PostgresError) -> R
    ) throws(HandlerError) -> R {
        guard let link else { throw unavailable }
        do throws(PostgresError) {
            return try body(link)
        } catch {
            throw failed(error, doing())
        }
    }

    private var unavailable: HandlerError {
        PostgresError(state: "", message: "the connection was closed").handlerError(path, doing: "a step")
    }

    /// The error of a statement of the open step or read; it decides whether that runs again.
    private func failed(_ error: PostgresError, _ doing: String) -> HandlerError {
        let known = error.handlerError(path, doing: doing)
        guard isOpen else { return known }
        if isReader {
            if error.isLost { repetition = .onNewConnection }
            if error.isStale { repetition = .withNewStatements }
        } else if error.isLost {
            repetition = .onNewConnection
        } else if error.isFenced {
            repetition = .asNewNode
        } else if error.isConflict {
            repetition = .afterConflict
        } else if error.isLocked {
            // The next one would wait as long.
            repetition = nil
        } else if mode == .optimistic {
            repetition = .carefully
        }
        return known
    }

    // MARK: Transactions

    func begin() throws(HandlerError) { try begin(makingLock: false) }

    /// Begins a step in a schema that may have no store yet: it makes the lock of steps there.
    func beginMaking() throws(HandlerError) { try begin(makingLock: true) }

    private func begin(makingLock: Bool) throws(HandlerError) {
        // What an earlier one could not give up.
        if isOpen { rollBack() }
        var attempts = 0
        while true {
            let link = try connected()
            if let node { try verify(link, node) }
            do throws(PostgresError) {
                if let node { try call(link, node.number) }
                let lock = try link.statement(StepLock.take)
                try link.send("BEGIN")
                if makingLock { try link.send(StepLock.table) }
                try link.send(lock, PostgresValues())
                if makingLock { try link.receive() }
                break
            } catch {
                attempts += 1
                // It was lost since the last step, or another process has made the table first; nothing was done on it.
                let isAgain = error.isLost || makingLock && error.isAlreadyMade
                if !error.isLost, (try? link.undo()) != nil {
                    if isAgain, attempts < 3 { continue }
                } else {
                    self.link = nil
                }
                guard isAgain, attempts < 3 else {
                    throw error.handlerError(path, doing: "beginning a step")
                }
            }
        }
        repetition = nil
        isOpen = true
        hasWritten = false
        savepoints = []
    }

    /// Gives the connection the name by which others end it when they take the node for dead.
    private func call(_ link: PostgresLink, _ number: Int) throws(PostgresError) {
        openNumber = number
        if calledNumber == number { return }
        try link.send(
            "SELECT pg_catalog.set_config('application_name'::text, \(NodeTable.connectionName(of: "\(number)")), false)"
        )
        // By itself: with the transaction that follows it would be rolled back.
        try link.receive(isLast: true)
        calledNumber = number
    }

    /// Has the next transaction be careful from its start: its errors are to be those of its statements.
    func beCareful() { mode = .careful }

    func beginReading() throws(HandlerError) {
        rollBack()
        repetition = nil
        let link = try connected()
        do throws(PostgresError) {
            try link.send("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        } catch {
            throw error.handlerError(path, doing: "beginning a read")
        }
        isOpen = true
    }

    func commit() throws(HandlerError) {
        guard let link, isOpen else { throw unavailable }
        node?.clearRecord()
        if options.runsTwice, mode == .optimistic {
            repetition = .carefully
            throw HandlerError(.databaseLocked, "this step runs a second time")
        }
        step += 1
        let isSure = hasWritten
        var (isStored, isCommitted) = (false, false)
        // A node that was taken for dead finds a new place in any step.
        if let node { isStored = try storeStep(isSure: isSure || node.isFenced) }
        // Also after a step that has only read: what it does next may come from a commit that is not on the standby.
        let isAwaited = options.durability != nil && node?.hasOtherMachines == true
        let doubts = node?.countOfDoubts ?? 0
        do throws(PostgresError) {
            let awaitLog = isAwaited ? try link.statement(Self.awaitLog) : nil
            if isAwaited, isSure, node?.isKnown == true {
                try link.send("SET LOCAL synchronous_commit = off")
            }
            try link.send("COMMIT")
            if let awaitLog { try link.send(awaitLog, PostgresValues()) }
            try link.receive(isLast: true) { result in
                if result.command == "COMMIT" { isCommitted = true }
                if result.command == "INSERT", result.changedRows > 0 { isStored = true }
            }
            if link.hasWarned {
                throw PostgresError(state: "", message: "the standby has not confirmed a commit")
            }
        } catch {
            // What follows a commit does not undo it, whatever its error is.
            let error = isCommitted ? PostgresError(state: "", message: error.message) : error
            let known = failed(error, "committing")
            guard error.isLost else { throw known }
            // While the doubt lasts it may not run again: it would be done twice.
            let repetition = self.repetition
            self.repetition = nil
            // What ends its wait for the standby shows it to others before it is there.
            node?.doubtCommits()
            guard try hasCommitted() else {
                self.repetition = repetition
                throw known
            }
        }
        if isAwaited, doubts > 0 { node?.endDoubts(doubts) }
        isOpen = false
        endRepetitions()
        if node != nil, isStored { committed = (openNumber, step) }
    }

    /// Stores the number of the open step, which is refused when the node was fenced.
    ///
    /// - Parameter isSure: Whether the step has written something; if not, the server decides.
    /// - Returns: Whether that is known already.
    private func storeStep(isSure: Bool) throws(HandlerError) -> Bool {
        let sql = isSure ? NodeTable.storeStep : NodeTable.storeStepIfWritten
        let values = [SQLValue.integer(Int64(openNumber)), .integer(step)]
        if mode == .careful { return try execute(sql, binding: values) > 0 }
        try write(sql, binding: values)
        return isSure
    }

    func runsAgain() throws(HandlerError) -> Bool {
        guard let repetition else { return false }
        self.repetition = nil
        switch repetition {
        case .carefully:
            mode = .careful
            return true
        case .afterConflict:
            conflicts += 1
            guard conflicts <= Self.conflictLimit else {
                endRepetitions()
                return false
            }
            // The other one is done soon; two that wait alike would meet again.
            SystemThread.sleep(microseconds: UInt32.random(in: 0...UInt32(500 * conflicts)))
            return true
        case .onNewConnection:
            mode = .optimistic
            // A statement at which the server dies would end all its connections again and again.
            conflicts += 1
            guard conflicts <= Self.conflictLimit else {
                endRepetitions()
                return false
            }
            SystemThread.sleep(microseconds: UInt32(1000 * conflicts))
            return (try? connected()) != nil
        case .withNewStatements:
            conflicts += 1
            // Once: the code is also that of what a server cannot do.
            guard conflicts == 1, let link, (try? link.startAgain()) != nil else {
                endRepetitions()
                return false
            }
            return true
        case .asNewNode:
            conflicts += 1
            guard conflicts <= Self.conflictLimit, (try? node?.registerAgain()) != nil else {
                endRepetitions()
                return false
            }
            do throws(HandlerError) {
                // Moved meanwhile: the move found no node that could commit.
                try MoveMark.refuse(in: self)
            } catch {
                node?.withdraw()
                endRepetitions()
                throw error
            }
            return true
        }
    }

    private func endRepetitions() { (mode, conflicts) = (.optimistic, 0) }

    func rollBack() {
        node?.clearRecord()
        guard isOpen else { return }
        isOpen = false
        savepoints = []
        if repetition == nil { endRepetitions() }
        guard let link, !link.isLost else { return }
        // What was sent before may fail, and the transaction with it.
        _ = try? link.receive()
        if (try? link.undo()) == nil { self.link = nil }
    }

    func savepoint() throws(HandlerError) {
        if mode == .careful { try control("SAVEPOINT handler") }
        savepoints.append(false)
    }

    func release() throws(HandlerError) {
        if mode == .careful { try control("RELEASE SAVEPOINT handler") }
        endSavepoint()
    }

    func undo() throws(HandlerError) {
        if mode == .careful {
            try control("ROLLBACK TO SAVEPOINT handler")
            try control("RELEASE SAVEPOINT handler")
        } else if savepoints.last == true {
            // From here on nothing can be done in this transaction, and the caller of undo has an error of its own.
            repetition = .carefully
        }
        _ = savepoints.popLast()
    }

    /// Notes that something was written since the innermost savepoint.
    func noteWrite() {
        hasWritten = true
        if !savepoints.isEmpty { savepoints[savepoints.count - 1] = true }
    }

    private func endSavepoint() {
        guard let hasWritten = savepoints.popLast(), hasWritten, !savepoints.isEmpty else { return }
        savepoints[savepoints.count - 1] = true
    }

    func control(_ command: String) throws(HandlerError) {
        try using(command) { (link) throws(PostgresError) in
            try link.send(command)
            try link.receive()
        }
    }

    var isInTransaction: Bool { isOpen && link?.isLost == false && repetition == nil }

    var hasUnresolvedForeignKeys: Bool {
        // The commit finds them, and the step runs again.
        guard mode == .careful, let link else { return false }
        do throws(PostgresError) {
            for command in ["SAVEPOINT keys", "SET CONSTRAINTS ALL IMMEDIATE"] { try link.send(command) }
            try link.receive()
            for command in ["SET CONSTRAINTS ALL DEFERRED", "RELEASE SAVEPOINT keys"] {
                try link.send(command)
            }
            try link.receive()
            return false
        } catch {
            for command in ["ROLLBACK TO SAVEPOINT keys", "RELEASE SAVEPOINT keys"] {
                try? link.send(command)
            }
            _ = try? link.receive()
            return true
        }
    }
}
