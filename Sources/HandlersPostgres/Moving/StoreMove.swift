public import Handlers

/// A move of a store to another database: from SQLite to PostgreSQL, back, or between two of a kind.
///
/// All rows go along, and are read back and compared, one by one, before the target commits. The store that is left stays as it
/// is, retired: opening it fails with ``/Handlers/HandlerError`` `databaseMoved` and names the target. What others know of the store goes on:
/// XEP-0198 sessions are resumed, OMEMO ratchets continue, no id and no idempotency key is given twice.
///
/// ```swift
/// let move = StoreMove(
///     from: .file("bots.db"), to: .postgres("host=pg1,pg2 dbname=bots target_session_attrs=read-write"),
///     schemas: [])
/// let summary = try move.run()
/// print("\(summary.rows) rows of \(summary.tables) tables")
/// ```
///
/// ```text
///   the store that is left:  in use ──▶ moving ─────────────────────────────▶ moved
///   the target:                           one transaction: tables, rows, comparison, commit
/// ```
/// At most one of the two can be opened at any time. A move that was interrupted is run again, with the same arguments: it starts
/// again, or finds that the target has everything. ``undo()`` gives the store back as long as the target has not.
public struct StoreMove: Sendable {
    /// Where a store is.
    ///
    /// ```swift
    /// let place = StoreMove.Place.postgres("postgresql://pg1/bots")
    /// ```
    public enum Place: Hashable, Sendable {
        /// A file of SQLite, by its path.
        case file(String)
        /// A database of PostgreSQL, by a connection string of libpq or its URI.
        case postgres(String)
    }

    /// What was moved.
    ///
    /// ```swift
    /// let move = StoreMove(from: .file("bots.db"), to: .postgres("host=pg1 dbname=bots"), schemas: [])
    /// print("\(try move.run().rows) rows")
    /// ```
    public struct Summary: Hashable, Sendable {
        /// The number of tables.
        public var tables = 0
        /// The number of their rows.
        public var rows = 0
        /// Whether an earlier run had brought everything, and this one has only retired the store that is left.
        public var wasCompleted = false
    }

    /// How far a move is.
    ///
    /// ```swift
    /// let move = StoreMove(from: .file("bots.db"), to: .postgres("host=pg1 dbname=bots"), schemas: [])
    /// try move.run { print("\($0.rows) of \($0.all) rows \($0.isComparing ? "compared" : "copied")") }
    /// ```
    public struct Progress: Hashable, Sendable {
        /// Whether all rows are copied, and they are being compared.
        public var isComparing = false
        /// The number of rows that were copied, or compared.
        public var rows = 0
        /// The number of rows to be moved.
        public var all = 0
    }

    let source: Place
    let target: Place
    let schemas: [Schema]
    let durability: PostgresDurability
    /// Whether tables of modules without schema are made as they are in the store that is left.
    var takesUnknown = false

    /// Describes a move; nothing is touched before ``run(progress:)``.
    ///
    /// - Parameters:
    ///   - source: The store.
    ///   - target: A database without a store: a path where there is no file, or a database of PostgreSQL whose schema has no
    ///     store. The role must own the tables, as the one that makes them.
    ///   - schemas: The tables of all modules that the store has, of this library and of the application; more may be given.
    ///   - durability: What a server to which a store is moved has to promise.
    public init(
        from source: Place, to target: Place, schemas: [Schema], durability: PostgresDurability = .onStandby
    ) {
        (self.source, self.target, self.schemas, self.durability) = (source, target, schemas, durability)
    }

    /// The same for programs that do not know all modules.
    package init(
        from source: Place, to target: Place, schemas: [Schema], durability: PostgresDurability,
        takesUnknown: Bool
    ) {
        self.init(from: source, to: target, schemas: schemas, durability: durability)
        self.takesUnknown = takesUnknown
    }

    /// Moves the store, or completes a move that was interrupted.
    ///
    /// It takes one transaction in the target, and reads and writes each row once and compares it once. Memory holds some rows at a
    /// time.
    ///
    /// - Parameter progress: Called about every 1000 rows.
    /// - Returns: What was moved.
    /// - Throws: ``/Handlers/HandlerError``. Nothing is changed, and the store can be opened as before, after `databaseLocked` (a
    ///   process or a machine has it open), `databaseForeign` (no store, a copy, unknown modules or tables, or a target that holds a
    ///   store), `databaseOlder` or `databaseNewer` (tables of another version), `databaseMoved` (it was moved, or is being moved
    ///   elsewhere), `databaseUnavailable` and `databaseReadOnly` as of a store that is opened, and `argumentNotEncodable` (a value
    ///   that the target cannot hold, with its table, column and row). When the connection is lost, or the machine, the store may
    ///   stay marked: then it opens no more until the move was run again or undone.
    @discardableResult
    public func run(progress: (Progress) -> Void = { _ in }) throws -> Summary {
        let mark = try checkSource()
        let target = try MoveTarget(target, durability)
        try target.database.begin()
        defer { target.database.connection.rollBack() }
        if try target.database.holdsStore() {
            guard let mark, try target.move == mark.move else { throw try target.holdsStore() }
            // Its commit may not have been acknowledged.
            try target.commitAgain()
            let source = try MoveSource(source, schemas: schemas)
            try source.set(MoveMark(move: mark.move, target: mark.target, hasMoved: true))
            return Summary(wasCompleted: true)
        }
        try target.checkIsUnused()
        try MoveFailpoint.begun.hit()
        let source = try MoveSource(source, schemas: schemas)
        return try run(
            source, target,
            MoveMark(
                move: mark?.move ?? Step.makeName(), target: target.name, hasMoved: false),
            progress)
    }

    private func run(
        _ source: MoveSource, _ target: MoveTarget, _ mark: MoveMark, _ progress: (Progress) -> Void
    ) throws -> Summary {
        var summary: Summary
        do {
            try source.leave(with: mark)
            try MoveFailpoint.marked.hit()
            summary = try StoreCopy(from: source.reader(), to: target.database, mark, self).run(progress)
            try MoveFailpoint.verified.hit()
        } catch {
            target.database.connection.rollBack()
            // Otherwise it stays marked, and the move can be run again, or undone.
            try? source.set(nil)
            throw error
        }
        do throws(HandlerError) {
            try target.database.connection.commit()
        } catch {
            throw HandlerError(
                error.code,
                "whether \(target.name) has stored everything is not known (\(error.message)); run the move again, or undo it. Until then the store cannot be opened",
                cause: error)
        }
        try MoveFailpoint.committed.hit()
        target.database.close()
        try source.set(MoveMark(move: mark.move, target: mark.target, hasMoved: true))
        try MoveFailpoint.retired.hit()
        return summary
    }

    /// Gives a store back whose move was interrupted, as long as the target does not have it.
    ///
    /// ```swift
    /// try StoreMove(from: .file("bots.db"), to: .postgres("host=pg1 dbname=bots"), schemas: []).undo()
    /// ```
    ///
    /// - Throws: ``/Handlers/HandlerError`` with code `databaseMoved` when the target has everything: then run the move again;
    ///   `databaseForeign` for another target than that of the move, or a store that is not being moved; and as ``run(progress:)`` when a
    ///   database cannot be opened, because the target must be read.
    public func undo() throws {
        guard let mark = try checkSource() else {
            throw HandlerError(
                .databaseForeign,
                "the store \(try source.name) is not being moved, so there is nothing to undo")
        }
        if target.isThere {
            let target = try MoveTarget(target, nil)
            // An earlier run that still commits has the lock.
            try target.database.begin()
            defer { target.database.connection.rollBack() }
            if try target.database.holdsStore(), try target.move == mark.move {
                throw HandlerError(
                    .databaseMoved,
                    "\(target.name) has all of the store, and programs may have it open; run the move again, which retires the store that is left"
                )
            }
            try MoveFailpoint.undoing.hit()
        }
        try MoveSource(source, schemas: schemas).set(nil)
    }
}

extension StoreMove.Place: CustomStringConvertible, CustomDebugStringConvertible {
    /// The path, or the address of the database without user and password.
    public var description: String {
        switch self {
        case .file(let path): path
        case .postgres(let settings):
            (try? PostgresSettings(settings, durability: nil).name) ?? "a connection string"
        }
    }

    /// The same, so that no dump of a value shows a password.
    public var debugDescription: String { description }
}
