import Platform
import Synchronization

/// Slot of one store among those that have the same database open: a lock that the kernel frees when its process dies.
/// No age and no timeout decides whether a process is alive.
///
/// ```text
///   init ──► seated ── leave() ──────────────────────────► free, clean
///               │
///               └── dies, or goes without leave() ──► free, dirty ── recoverDead(_:) ──► free, clean
/// ```
/// A stopped process (SIGSTOP) keeps its slot. A child made by fork(2) without exec shares the slot until both have
/// ended; a program started by exec does not.
package final class ProcessSlot: Sendable {
    /// The maximum number of stores that have a database open at the same time.
    package static let limit = 256

    /// Number of the slot, 0 ..< ``limit``.
    package let number: Int
    /// Random byte of the file that this store keeps locked. Its lock shows that this store is alive, even if the slot
    /// is reclaimed at once.
    package let aliveByte: Int64

    let file: SlotFile
    /// Wakes the other stores; nil where they look regularly instead.
    let signal: SignalPipe?
    private let database: String
    /// Counts ``notifyOthers()``.
    let ownNotifications = Atomic<UInt32>(0)
    private let isOccupied = Atomic<Bool>(true)
    // Locks belong to the open file, so they do not keep two threads of this store apart.
    private let recovering = Mutex<Void>(())

    /// Locks the first free slot of the file `<path>-processes`, which is created with mode 0600 like the pipe `<path>-signal`.
    ///
    /// - Parameters:
    ///   - path: The database file.
    ///   - whenAlone: Called before others can see this store, if no other store has the database open. Several that come at the same
    ///     moment may all be alone.
    ///   - recover: Called before the slot is used, if its last holder died or is unknown, with the slot's number and
    ///     what it ran: frees what it left, and has that committed when it returns. Until then the slot is dirty.
    ///     In a new file, and in one of an earlier boot, every slot counts as one of an unknown holder.
    /// - Throws: What `whenAlone` and `recover` throw; ``HandlerError`` with the codes `databaseUnavailable` (also when all slots are
    ///   taken), `databaseReadOnly`, `databaseForeign`, `databaseNewer` or `storageFailed`.
    package init(
        path: String, whenAlone: () throws(HandlerError) -> Void = {},
        recover: (_ slot: Int, _ runningCall: RunningCall?) throws(HandlerError) -> Void
    ) throws(HandlerError) {
        let file = try SlotFile(database: path)
        signal = try SignalPipe(database: path)
        number = try Self.lockFreeSlot(file)
        // From here on a throw closes the file, which gives the slot back as it was.
        let runningCall: RunningCall?? = file.withRecord(number) {
            $0.isDirty.load(ordering: .acquiring) == 0 ? nil : .some($0.runningCall)
        }
        if Self.others(than: number, in: file).isEmpty { try whenAlone() }
        if let runningCall { try recover(number, runningCall) }
        aliveByte = SlotFile.newAliveByte()
        self.file = file
        database = path
        try occupy(inode: fileNumber ?? 0)
    }

    /// A store that goes without ``leave()`` looks to the others as if it had died, and they must see that at once.
    deinit { if isOccupied.exchange(false, ordering: .relaxed) { unlock() } }

    package var narrowedFiles: [String] {
        (file.wasNarrowed ? [file.path] : []) + (signal.map { $0.wasNarrowed ? [$0.path] : [] } ?? [])
    }
    package var fileNumber: Int64? { FileNumber.of(database) }

    private static func lockFreeSlot(_ file: SlotFile) throws(HandlerError) -> Int {
        for slot in 0..<limit {
            if try file.tryLock(byte: SlotFile.lock(ofSlot: slot)) { return slot }
        }
        throw SlotFileErrors.full(file.path)
    }

    private func occupy(inode: Int64) throws(HandlerError) {
        guard try file.tryLock(byte: aliveByte) else { throw SlotFileErrors.failed(file.path, .wouldBlock) }
        file.withRecord(number) {
            $0.clearRunningCall()
            $0.isDirty.store(1, ordering: .releasing)
            $0.processID.store(Int64(ThisProcess.id), ordering: .relaxed)
            $0.inode.store(inode, ordering: .relaxed)
            // Last: a store that reads it takes this one for alive.
            $0.aliveByte.store(aliveByte, ordering: .releasing)
        }
        // Others watch this slot from now on.
        notifyOthers()
    }

    // MARK: - While seated

    /// Records the handler that this process runs, in shared memory and without a system call. Another process reads it
    /// if this one dies.
    ///
    /// The record survives SIGKILL, but not a loss of power. Calls must not overlap each other or ``leave()``.
    /// - Parameter mark: Its handler is not 0.
    package func record(_ runningCall: RunningCall) {
        guard isOccupied.load(ordering: .relaxed) else { return }
        file.withRecord(number) { $0.write(runningCall) }
    }

    /// Removes the record: this process runs no handler.
    package func clearRunningCall() {
        guard isOccupied.load(ordering: .relaxed) else { return }
        file.withRecord(number) { $0.clearRunningCall() }
    }

    /// Frees the slot in good order: nothing is left to recover.
    ///
    /// A store that goes without this is taken for dead, and its leases are recovered.
    package func leave() {
        guard isOccupied.exchange(false, ordering: .relaxed) else { return }
        file.withRecord(number) { $0.makeClean() }
        unlock()
    }

    /// By name and not by closing: the watch of other stores keeps the file open.
    private func unlock() {
        file.handle.unlock(byte: aliveByte)
        file.handle.unlock(byte: SlotFile.lock(ofSlot: number))
        notifyOthers()
    }

    // MARK: - Others

    /// Calls `body` for each slot whose store died since it was last recovered. No other process can lock or recover
    /// that slot meanwhile.
    ///
    /// A slot that another process recovers at this moment is left to that process.
    /// - Parameter body: Gets the slot's number and what its holder ran; has committed what it does when it returns.
    ///   Then the slot is clean. When it throws, the slot is found again, by any process. It must not call this
    ///   function.
    /// - Throws: What `body` throws; slots after that one are not looked at.
    package func recoverDead<E>(_ body: (_ slot: Int, _ runningCall: RunningCall?) throws(E) -> Void)
        throws(E)
    {
        try recovering.withLock { _ throws(E) in
            for slot in 0..<Self.limit where slot != number && isDirty(slot) {
                try recover(slot, body)
            }
        }
    }

    private func recover<E>(_ slot: Int, _ body: (Int, RunningCall?) throws(E) -> Void) throws(E) {
        let lock = SlotFile.lock(ofSlot: slot)
        guard (try? file.handle.tryLock(byte: lock)) == true else { return }
        defer { file.handle.unlock(byte: lock) }
        // Looks again: another process may have been first.
        guard isDirty(slot) else { return }
        try body(slot, file.withRecord(slot) { $0.runningCall })
        file.withRecord(slot) { $0.makeClean() }
    }

    /// Whether a slot of a dead store is not recovered yet: another process may be at it.
    package var hasUnrecovered: Bool {
        (0..<Self.limit).contains { $0 != number && isDirty($0) && !isAlive(aliveByte(of: $0)) }
    }

    /// Calls `body` while a slot is free. It is not called if the slot's last store died and was not recovered:
    /// ``recoverDead(_:)`` must count that death.
    package func whileVacant<E>(_ slot: Int, _ body: () throws(E) -> Void) throws(E) {
        // A slot that there cannot be, and the own one, which nobody else can take.
        guard slot != number, (0..<Self.limit).contains(slot) else { return try body() }
        try recovering.withLock { _ throws(E) in
            let lock = SlotFile.lock(ofSlot: slot)
            guard (try? file.handle.tryLock(byte: lock)) == true else { return }
            defer { file.handle.unlock(byte: lock) }
            if !isDirty(slot) { try body() }
        }
    }

    private func isDirty(_ slot: Int) -> Bool {
        file.withRecord(slot) { $0.isDirty.load(ordering: .acquiring) != 0 }
    }

    /// Slots of the other stores that have the database open, with those of stopped processes.
    package var others: [Int] { Self.others(than: number, in: file) }

    private static func others(than number: Int, in file: SlotFile) -> [Int] {
        (0..<limit).filter { slot in
            guard slot != number else { return false }
            let aliveByte: Int64? = file.withRecord(slot) {
                $0.isDirty.load(ordering: .acquiring) == 0 ? nil : $0.aliveByte.load(ordering: .acquiring)
            }
            return aliveByte.map { file.handle.isLockedElsewhere(byte: $0) } ?? false
        }
    }

    /// Returns whether a store that has the database open sees its file under another number, as with some network file
    /// systems.
    package func isSeenOtherwise(than inode: Int64) -> Bool {
        others.contains { slot in
            let seen = file.withRecord(slot) { $0.inode.load(ordering: .relaxed) }
            return seen != 0 && seen != inode
        }
    }

    /// The other stores that have the database open: the process of each by its alive byte.
    package var neighbors: [Int64: Int32] {
        var found: [Int64: Int32] = [:]
        for slot in others { found[aliveByte(of: slot)] = processID(of: slot) }
        // A slot may have another holder by now.
        return found.filter { $0.key != aliveByte && isAlive($0.key) }
    }

    /// Returns whether the store that locks this byte is alive; false for the own byte.
    package func isAlive(_ aliveByte: Int64) -> Bool { file.handle.isLockedElsewhere(byte: aliveByte) }

    /// Process that used a slot last; for display.
    package func processID(of slot: Int) -> Int32 {
        Int32(truncatingIfNeeded: file.withRecord(slot) { $0.processID.load(ordering: .relaxed) })
    }

    private func aliveByte(of slot: Int) -> Int64 {
        file.withRecord(slot) { $0.aliveByte.load(ordering: .acquiring) }
    }
}
