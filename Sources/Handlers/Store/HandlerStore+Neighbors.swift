/// The other processes that have the database open, and what is shared with them.
extension HandlerStore {
    /// Calls `action` after another process has committed, left or died, from ``watchChanges()`` on.
    package func addNeighborListener(_ listener: AnyObject, _ action: @escaping @Sendable () -> Void) {
        listeners.addNeighborListener(listener, action)
    }

    package func removeNeighborListener(_ listener: AnyObject) { listeners.removeNeighborListener(listener) }

    /// Notifies other processes of a commit.
    package func notifyOthers() { slot.notifyOthers() }

    /// The slot of this store among those that have the database open.
    package var slotNumber: Int { slot.number }

    /// Whether the store lives that has a slot, on whatever machine.
    package func isAlive(slot: Int) -> Bool { self.slot.isAlive(slot: slot) }

    /// Has this store take its part of what is shared, or none any more.
    package func share(_ isSharing: Bool) throws(HandlerError) { try slot.share(isSharing) }

    /// The slots of the stores that live and take a part of what is shared, on whatever machine; of those of a file only this one's.
    package func sharingSlots() throws(HandlerError) -> [Int] { try slot.sharingSlots() }

    /// Whether others have taken this process for dead, although it lives.
    var isFenced: Bool { slot.isFenced }

    var traits: EngineTraits { database.traits }

    /// Whether the database is on a server, for whose steps other machines wait.
    package var isOnServer: Bool { traits.isShared }

    /// Whether other machines may have the database open.
    var hasOtherMachines: Bool { slot.hasOtherMachines }

    /// The path of its file, from the root and without links; empty where it is no file.
    package var filePath: String { database.filePath }

    /// Number of notifications by other processes, modulo 2^32.
    package var notificationsByOthers: UInt32 { slot.countOfOthers }
}
