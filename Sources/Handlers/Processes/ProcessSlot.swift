import Platform
import Synchronization

/// One store's seat among those that have the same database open: a lock that the kernel frees the moment its process
/// dies. No age and no timeout decides who lives.
///
/// ```
///   init ──► seated ── leave() ──────────────────────────► free, clean
///               │
///               └── dies, or goes without leave() ──► free, dirty ── recoverDead(_:) ──► free, clean
/// ```
/// A process that was stopped (SIGSTOP) keeps its seat. A child made by fork(2) without exec shares the seat, which is
/// then free when both are gone; a program started by exec does not.
package final class ProcessSlot: Sendable {
    /// How many stores can have one database open at a time.
    package static let limit = 256

    /// The seat, 0 ..< ``limit``.
    package let number: Int
    /// Names this holder of the seat among all that ever sat on any seat; drawn by chance.
    package let life: Int64

    let file: SeatFile
    private let database: String
    /// Counts ``ring()``.
    let ownRings = Atomic<UInt32>(0)
    private let isSeated = Atomic<Bool>(true)
    // Locks belong to the open file, so they do not keep two threads of this store apart.
    private let recovering = Mutex<Void>(())

    /// Takes the first free seat of the file `<path>-processes`, which is created with mode 0600.
    ///
    /// - Parameters:
    ///   - path: The database file.
    ///   - recover: Called before the seat is used, if its last holder died or is unknown, with the seat's number and
    ///     what it ran: frees what it left, and has that committed when it returns. Until then the seat is dirty.
    ///     In a new file, and in one of an earlier boot, every seat counts as one of an unknown holder.
    /// - Throws: What `recover` throws; ``HandlerError`` with the codes `databaseUnavailable` (also when all seats are
    ///   taken), `databaseReadOnly`, `databaseForeign`, `databaseNewer` or `storageFailed`.
    package init(
        path: String, recover: (_ seat: Int, _ mark: Mark?) throws(HandlerError) -> Void
    ) throws(HandlerError) {
        let file = try SeatFile(database: path)
        number = try Self.takeSeat(file)
        // From here on a throw closes the file, which gives the seat back as it was.
        let mark: Mark?? = file.withRecord(number) {
            $0.isDirty.load(ordering: .acquiring) == 0 ? nil : .some($0.mark)
        }
        if let mark { try recover(number, mark) }
        life = SeatFile.newLife()
        self.file = file
        database = path
        try sitDown(inode: fileNumber ?? 0)
    }

    deinit { unlock() }

    package var narrowedFile: String? { file.wasNarrowed ? file.path : nil }
    package var fileNumber: Int64? { FileNumber.of(database) }

    private static func takeSeat(_ file: SeatFile) throws(HandlerError) -> Int {
        for seat in 0..<limit {
            if try file.tryLock(byte: SeatFile.lock(ofSeat: seat)) { return seat }
        }
        throw SeatFileErrors.full(file.path)
    }

    private func sitDown(inode: Int64) throws(HandlerError) {
        guard try file.tryLock(byte: life) else { throw SeatFileErrors.failed(file.path, .wouldBlock) }
        file.withRecord(number) {
            $0.clearMark()
            $0.isDirty.store(1, ordering: .releasing)
            $0.processID.store(Int64(ThisProcess.id), ordering: .relaxed)
            $0.inode.store(inode, ordering: .relaxed)
            // Last: whoever reads it may wait for it.
            $0.life.store(life, ordering: .releasing)
        }
        // Others may wish to watch this seat.
        ring()
    }

    // MARK: - While seated

    /// Leaves word of what this process runs, for whoever finds it dead: stores into shared memory, no system call.
    ///
    /// The word outlives SIGKILL, but not a loss of power. Calls must not overlap each other or ``leave()``.
    /// - Parameter mark: Its handler is not 0.
    package func mark(_ mark: Mark) {
        guard isSeated.load(ordering: .relaxed) else { return }
        file.withRecord(number) { $0.write(mark) }
    }

    /// Takes the word back: this process runs nothing that could be to blame for its death.
    package func clear() {
        guard isSeated.load(ordering: .relaxed) else { return }
        file.withRecord(number) { $0.clearMark() }
    }

    /// Gives the seat back in good order: nothing is left on it that anybody would have to recover.
    ///
    /// A store that goes without this is taken for dead, and its leases are recovered.
    package func leave() {
        guard isSeated.exchange(false, ordering: .relaxed) else { return }
        file.withRecord(number) { $0.makeClean() }
        unlock()
        ring()
    }

    /// By name and not by closing: the mapping and the threads that wait for others keep the file open.
    private func unlock() {
        isSeated.store(false, ordering: .relaxed)
        file.handle.unlock(byte: life)
        file.handle.unlock(byte: SeatFile.lock(ofSeat: number))
    }

    // MARK: - Others

    /// Calls `body` for each seat whose holder died since it was last recovered, while no other process can take or
    /// recover that seat.
    ///
    /// A seat that some process recovers at this moment is left to that process.
    /// - Parameter body: Gets the seat's number and what its holder ran; has committed what it does when it returns.
    ///   Then the seat is clean. When it throws, the seat is found again, by any process. It must not call this
    ///   function.
    /// - Throws: What `body` throws; seats after that one are not looked at.
    package func recoverDead<E>(_ body: (_ seat: Int, _ mark: Mark?) throws(E) -> Void) throws(E) {
        try recovering.withLock { _ throws(E) in
            for seat in 0..<Self.limit where seat != number && isDirty(seat) {
                try recover(seat, body)
            }
        }
    }

    private func recover<E>(_ seat: Int, _ body: (Int, Mark?) throws(E) -> Void) throws(E) {
        let lock = SeatFile.lock(ofSeat: seat)
        guard (try? file.handle.tryLock(byte: lock)) == true else { return }
        defer { file.handle.unlock(byte: lock) }
        // Looks again: another process may have been first.
        guard isDirty(seat) else { return }
        try body(seat, file.withRecord(seat) { $0.mark })
        file.withRecord(seat) { $0.makeClean() }
    }

    /// Calls `body` while no other store sits on a seat, unless its last holder died and is yet to be recovered: then the death
    /// counts against what it ran, see ``recoverDead(_:)``.
    package func whileVacant<E>(_ seat: Int, _ body: () throws(E) -> Void) throws(E) {
        // A seat that there cannot be, and the own one, which nobody else can take.
        guard seat != number, (0..<Self.limit).contains(seat) else { return try body() }
        try recovering.withLock { _ throws(E) in
            let lock = SeatFile.lock(ofSeat: seat)
            guard (try? file.handle.tryLock(byte: lock)) == true else { return }
            defer { file.handle.unlock(byte: lock) }
            if !isDirty(seat) { try body() }
        }
    }

    private func isDirty(_ seat: Int) -> Bool {
        file.withRecord(seat) { $0.isDirty.load(ordering: .acquiring) != 0 }
    }

    /// The seats of the other stores that have the database open now, those of stopped processes among them.
    package var others: [Int] {
        (0..<Self.limit).filter { $0 != number && isDirty($0) && isAlive(life(of: $0)) }
    }

    /// Whether a store that has the database open sees its file under another number, as with some network file systems.
    package func isSeenOtherwise(than inode: Int64) -> Bool {
        others.contains { seat in
            let seen = file.withRecord(seat) { $0.inode.load(ordering: .relaxed) }
            return seen != 0 && seen != inode
        }
    }

    /// The lives of the other stores that have the database open now.
    package var lives: [Int64] { others.map { life(of: $0) }.filter { $0 != life && isAlive($0) } }

    /// Whether the store that drew this number is still there; false for the one that asks.
    package func isAlive(_ life: Int64) -> Bool {
        file.handle.isLockedElsewhere(byte: life)
    }

    /// The process that took a seat last; for display.
    package func processID(of seat: Int) -> Int32 {
        Int32(truncatingIfNeeded: file.withRecord(seat) { $0.processID.load(ordering: .relaxed) })
    }

    /// Calls back, once and on a thread of its own, when the present holder of another seat has died or left.
    ///
    /// The seat is free or taken anew by then: ``recoverDead(_:)`` finds out what there is to do. A seat on which
    /// nobody sits counts as left. Any number of processes may watch one seat.
    /// - Parameter seat: Not this slot's own.
    /// - Returns: The watch, which ends when it is canceled or released.
    /// - Throws: ``HandlerError`` with code `databaseUnavailable` when the system gives no thread or descriptor.
    package func watch(
        _ seat: Int, ended: @escaping @Sendable () -> Void
    ) throws(HandlerError) -> any ProcessWatch {
        precondition(seat != number, "a store cannot wait for its own death")
        return try watch(life: life(of: seat), ended: ended)
    }

    /// The same for the store that drew this number.
    package func watch(
        life: Int64, ended: @escaping @Sendable () -> Void
    ) throws(HandlerError) -> any ProcessWatch {
        do throws(Errno) {
            return try LockWatch(file.handle, byte: life, ended: ended)
        } catch {
            throw SeatFileErrors.noThread(error)
        }
    }

    private func life(of seat: Int) -> Int64 {
        file.withRecord(seat) { $0.life.load(ordering: .acquiring) }
    }
}
