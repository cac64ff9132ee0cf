package import Platform

/// A store's place among the processes that have its database open: ``ProcessSlot``, or that of a simulated world.
package protocol ProcessPresence: AnyObject, Sendable {
    /// The slot, 0 ..< ``ProcessSlot/limit``.
    var number: Int { get }
    /// A file of its own that others had access to until it was opened.
    var narrowedFile: String? { get }
    /// The number of the database's file; nil where the file system gives none.
    var fileNumber: Int64? { get }

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
    /// Calls `body` while no other store has a slot, unless a dead one is yet to be recovered from it.
    func whileVacant<E>(_ slot: Int, _ body: () throws(E) -> Void) throws(E)
    /// Returns whether a store that has the database open sees its file under another number.
    func isSeenOtherwise(than inode: Int64) -> Bool

    /// Alive bytes of the other stores that have the database open.
    var aliveBytes: [Int64] { get }
    /// Calls back, once and on any thread, when the store of an alive byte has died or left.
    func watch(aliveByte: Int64, ended: @escaping @Sendable () -> Void) throws(HandlerError)
        -> any ProcessWatch
    /// Calls back when another store of this database committed, came or left.
    func watchChanges(_ changed: @escaping @Sendable () -> Void) throws(HandlerError) -> any ProcessWatch
}

/// A watch over other processes; it ends when it is released.
package protocol ProcessWatch: AnyObject, Sendable {
    /// Ends the watch. When this returns, no call runs and none will, unless it is the callback that calls this.
    func cancel()
}

extension LockWatch: ProcessWatch {}
extension ChangeWatcher: ProcessWatch {}
extension ProcessSlot: ProcessPresence {}
