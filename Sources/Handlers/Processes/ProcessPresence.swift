package import Platform

/// A store's place among the processes that have its database open: ``ProcessSlot``, or that of a simulated world.
package protocol ProcessPresence: AnyObject, Sendable {
    /// The seat, 0 ..< ``ProcessSlot/limit``.
    var number: Int { get }
    /// A file of its own that others had access to until it was opened.
    var narrowedFile: String? { get }
    /// The number of the database's file; nil where the file system gives none.
    var fileNumber: Int64? { get }

    /// Leaves word of the handler that this process runs.
    func mark(_ mark: Mark)
    /// Takes that word back.
    func clear()
    /// Gives the seat back in good order.
    func leave()
    /// Notifies the other stores that this one has committed something.
    func ring()
    /// How often the others rang, modulo 2^32.
    var countOfOthers: UInt32 { get }

    /// Calls `body` for each seat whose process died and was not recovered.
    func recoverDead<E>(_ body: (_ seat: Int, _ mark: Mark?) throws(E) -> Void) throws(E)
    /// Calls `body` while no other store has a seat, unless a dead one is yet to be recovered from it.
    func whileVacant<E>(_ seat: Int, _ body: () throws(E) -> Void) throws(E)
    /// Whether a store that has the database open sees its file under another number.
    func isSeenOtherwise(than inode: Int64) -> Bool

    /// The lives of the other stores that have the database open now.
    var lives: [Int64] { get }
    /// Calls back, once and on any thread, when the store of a life has died or left.
    func watch(life: Int64, ended: @escaping @Sendable () -> Void) throws(HandlerError) -> any ProcessWatch
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
