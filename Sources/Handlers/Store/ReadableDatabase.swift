/// A database that a ``StoreReader`` reads: a file, or a database of another engine.
package protocol ReadableDatabase {
    /// Names the database in messages.
    var path: String { get }

    /// Lends `body` a connection that only reads. `body` may run twice.
    func read<R>(_ body: (any SQLConnection) throws -> R) throws -> R
    /// Returns the processes that have the database open.
    ///
    /// - Parameter snapshot: The state of the database that is read.
    func processes(in snapshot: borrowing Snapshot) throws(HandlerError) -> [StoreProcess]
    /// Returns who holds the lock for which the steps of all machines wait; nil for nobody, and for a file.
    ///
    /// - Parameter snapshot: The state of the database that is read.
    func stepLockHolder(in snapshot: borrowing Snapshot) throws(HandlerError) -> StepLockHolder?
}

extension ReadableDatabase {
    package func stepLockHolder(in snapshot: borrowing Snapshot) throws(HandlerError) -> StepLockHolder? {
        nil
    }
}
