/// A store's place among those that have its database open, on any machine.
package protocol StorePresence: AnyObject, Sendable {
    /// The slot: of a file's stores 0 ..< ``ProcessSlot/limit``. It changes when the others have taken this process for dead.
    var number: Int { get }
    /// Whether others have taken this process for dead, although it lives: its next step gets another slot.
    var isFenced: Bool { get }

    /// Whether other machines may have the database open.
    var hasOtherMachines: Bool { get }
    /// Whether the store lives that has a slot, as far as the others know.
    func isAlive(slot: Int) -> Bool
    /// Has this store take its part of what is shared, or none any more.
    func share(_ isSharing: Bool) throws(HandlerError)
    /// The slots of the stores that live and take a part of what is shared.
    func sharingSlots() throws(HandlerError) -> [Int]

    /// Records the handler that this process runs.
    func record(_ runningCall: RunningCall)
    /// Removes that record.
    func clearRunningCall()
    /// Gives the slot back in good order.
    func leave()
    /// Notifies the other stores that this one has committed something.
    func notifyOthers()
    /// The notifications by others, modulo 2^32.
    var countOfOthers: UInt32 { get }

    /// Calls `body` for each slot whose process died and was not recovered.
    func recoverDead<E>(_ body: (_ slot: Int, _ runningCall: RunningCall?) throws(E) -> Void) throws(E)
    /// Calls back after another store of this database has committed, left or died.
    ///
    /// - Parameter driver: Calls the turns of the watch, if it has any.
    func watchOthers(
        _ driver: any LoopDriver, _ changed: @escaping @Sendable () -> Void
    ) throws(HandlerError) -> any ProcessWatch
}

/// The same in a file, among the processes of one machine: ``ProcessSlot``, or that of a simulated world.
package protocol ProcessPresence: StorePresence {
    /// Its own files that others had access to until they were opened.
    var narrowedFiles: [String] { get }
    /// The number of the database's file; nil where the file system gives none.
    var fileNumber: Int64? { get }
    /// Whether a store has died whose slot is not recovered yet: another process may be at it.
    var hasUnrecovered: Bool { get }
    /// Calls `body` while no other store has a slot, unless a dead one is yet to be recovered from it.
    func whileVacant<E>(_ slot: Int, _ body: () throws(E) -> Void) throws(E)
    /// Returns whether a store that has the database open sees its file under another number.
    func isSeenOtherwise(than inode: Int64) -> Bool
}

/// A watch over other processes; it ends when it is released.
package protocol ProcessWatch: AnyObject, Sendable {
    /// Ends the watch. When this returns, no call runs and none will, unless it is called on the thread of the callback.
    func cancel()
}

extension ProcessPresence {
    /// A file is locked by its process for as long as that lives.
    package var isFenced: Bool { false }
    package var hasOtherMachines: Bool { false }
    /// The locks of files tell more: ``OwnerFiles`` in XMPPAccount.
    package func isAlive(slot: Int) -> Bool { slot == number }
    package func share(_ isSharing: Bool) throws(HandlerError) {}
    package func sharingSlots() throws(HandlerError) -> [Int] { [number] }
}

extension ProcessSlot: ProcessPresence {}
