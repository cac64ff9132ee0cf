/// The database of a store: ``SQLiteDatabase``, or that of another engine.
///
/// ```text
///   HandlerStore ──▶ StoreDatabase ──▶ SQLConnection     statements and transactions
///                                  ╰─▶ StorePresence     who else has it open, and who died
/// ```
package protocol StoreDatabase: AnyObject, Sendable {
    /// Names the database in messages.
    var path: String { get }
    /// The path of its file, from the root and without links, by which all who have it open know the files beside it; empty where
    /// it is no file.
    var filePath: String { get }
    var traits: EngineTraits { get }
    /// The connection of steps.
    var connection: any SQLConnection { get }
    /// The connections of reads.
    var readers: ReaderPool { get }
    /// Files that other users could access until it was opened, and until the store had its place.
    var narrowedFiles: [String] { get }

    /// The clocks of its steps and reads; those of the program, unless machines share the database.
    func clocks(_ time: TimeSource) -> TimeSource

    /// Makes the tables that are missing, in one transaction.
    ///
    /// - Returns: Says of each module from which version to which it was brought.
    /// - Throws: ``HandlerError`` with code `databaseNewer` when a module's tables are newer than the program; nothing is changed.
    func migrate(to schemas: [Schema]) throws(HandlerError) -> [String]
    /// Takes a place among the processes that have the database open.
    ///
    /// - Parameter recover: Frees what a process that died has left; its slot becomes free when that returns.
    func takePlace(
        _ recover: (_ slot: Int, _ runningCall: RunningCall?) throws(HandlerError) -> Void
    ) throws(HandlerError) -> any StorePresence
    /// Prepares for a later call of that kind.
    func prepareRecovery() throws(HandlerError)
    /// Called once the store works, before anything uses it.
    func settle(in store: HandlerStore) throws
    /// How often commits of this process were found missing since the store was opened; to be read in a step. A file that was replaced
    /// is refused instead.
    var losses: Int { get }
    /// Ends the use of the database, before the place is given back.
    func close()
    /// Closes the connection of steps, after ``close()`` and after the place was given back.
    func closeConnection()
    /// Connects again after ``closeConnection()``; the place is to be taken again.
    func connectAgain() throws(HandlerError)
}

/// What sets an engine apart for the code above it.
package struct EngineTraits: Sendable {
    /// Whether machines share the database, so that the others call what they have stored themselves.
    package let isShared: Bool
    /// Whether steps of all machines wait for each other, so that what only looks takes none.
    package let stepsAreCostly: Bool

    package static let file = EngineTraits(isShared: false, stepsAreCostly: false)
    package static let server = EngineTraits(isShared: true, stepsAreCostly: true)
}

extension StoreDatabase {
    package var narrowedFiles: [String] { [] }
    package func clocks(_ time: TimeSource) -> TimeSource { time }
    package var losses: Int { 0 }
    // A server's connections hold no lock of a file.
    package func closeConnection() {}
    package func connectAgain() throws(HandlerError) {}
}
