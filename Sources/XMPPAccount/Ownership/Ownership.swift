import Handlers
import Platform

/// Ownership of an account's stream: the epoch that this process raised, its lock, and the socket on which it answers.
///
/// Another process learns of the owner's death from the lock, which the kernel frees. It learns from the socket whether a living
/// owner responds:
///
/// - The lock is free: the owner has died or released the account. Take the lock and raise the epoch.
/// - The lock is held and the owner answers: the owner keeps the stream, or hands it over.
/// - The lock is held and the owner is silent: it is frozen. Raise the epoch without the lock.
///
/// Every step of an owner checks the epoch (``OwnerStep``), so the former owner can commit nothing any more.
final class Ownership {
    /// What this process commits for the stream.
    let step: OwnerStep
    private let lock: OwnerLock
    /// What the server was told.
    private var told: ToldMark
    /// The lock file, if others had access to it until now.
    let narrowedFile: String?
    /// Raised when this process owns the account no longer, so that it answers nobody any more.
    private let stop: WakeSignal
    /// The thread that answers.
    private let thread: WorkerThread

    private init(
        step: OwnerStep, lock: OwnerLock, narrowedFile: String?, stop: WakeSignal, thread: WorkerThread
    ) {
        self.step = step
        self.narrowedFile = narrowedFile
        told = ToldMark(epoch: step.epoch)
        self.lock = lock
        self.stop = stop
        self.thread = thread
    }

    deinit { stop.raise() }

    static func lockFile(of account: Int64, _ store: HandlerStore) -> String {
        "\(store.filePath)-owner-\(account)"
    }

    /// Takes the account over.
    ///
    /// - Parameters:
    ///   - store: The database.
    ///   - role: Whether this process leaves a live owner alone (`worker`) or asks it to hand over (`main`).
    ///   - silence: How long an owner may take to answer before it counts as frozen, in milliseconds.
    ///   - handOver: Called on another thread when a main program asks a worker for the stream.
    /// - Throws: ``AccountError`` `ownershipHeld` when the owner is alive and keeps the stream;
    ///   ``/Handlers/HandlerError`` when the store fails, `databaseLocked` when a frozen process sits inside a write
    ///   transaction.
    static func take(
        _ table: OwnershipTable, store: HandlerStore, role: AccountRole, owner: String, silence: Int64,
        handOver: @escaping @Sendable () -> Void
    ) throws -> Ownership {
        let base = lockFile(of: table.account, store)
        let lock = try OwnerLock(path: base, beside: store.filePath)
        try waitForOwner(
            lock, socketPath: base + ".sock", beside: store.filePath, role: role, silence: silence)
        try Failpoint.afterLock.hit()
        // The socket is bound inside the step: whoever raised the epoch last is the one who answers.
        let (epoch, socket) = try store.step { step in
            (
                try table.takeOver(owner: owner, past: lock.told, in: step),
                try OwnerSocket(path: base + ".sock", beside: store.filePath)
            )
        }
        lock.note(ToldMark(epoch: epoch))
        try Failpoint.afterTakeover.hit()
        let stop = try WakeSignal()
        let thread = try socket.answer(until: stop) { question in
            // A worker lets the main program have the stream; a main program keeps it.
            guard question == .handOver, role == .worker else { return .keeping }
            handOver()
            return .releasing
        }
        return Ownership(
            step: OwnerStep(store: store, table: table, epoch: epoch), lock: lock,
            narrowedFile: lock.wasNarrowed ? base : nil, stop: stop, thread: thread)
    }

    /// How long to wait between two looks at the lock, in microseconds: until an owner that was killed is gone.
    private static let pause: UInt32 = 250
    /// How much of the silence is kept for the taking over itself at most, in milliseconds.
    private static let longestTakeOver: Int64 = 25

    /// How long to wait for an owner that is silent: within the silence the account shall be taken over as well, which is a
    /// transaction's work.
    static func patience(_ silence: Int64) -> Int64 { silence - min(silence / 20, longestTakeOver) }

    /// Returns when the lock is taken or the owner has been silent for too long.
    private static func waitForOwner(
        _ lock: OwnerLock, socketPath: String, beside database: String, role: AccountRole, silence: Int64
    ) throws(AccountError) {
        let question: OwnerQuestion = role == .worker ? .isAlive : .handOver
        let end = TimeSource.sum(TimeSource.system.milliseconds(), patience(silence))
        while true {
            let isTaken = lock.tryToTake()
            let left = end - TimeSource.system.milliseconds()
            guard left > 0 else { return }
            // Also where the lock was free: an owner that passed a frozen one over may not hold it yet.
            switch OwnerSocket.ask(
                question, path: socketPath, beside: database, milliseconds: Int32(clamping: left))
            {
            case nil where isTaken: return
            case .keeping:
                lock.release()
                throw AccountError(
                    .ownershipHeld,
                    "another process is alive and keeps this account's stream; let it do the work")
            case .releasing, nil:
                // Letting go, starting or dying: the lock tells.
                SystemThread.sleep(microseconds: Self.pause)
            }
        }
    }

    /// Notes what is about to be written: everything up to a row of the outbox.
    func willWrite(upTo row: Int64) {
        told.written = row
        lock.note(told)
    }

    /// Notes the count that the server is about to be told.
    func willTell(_ handled: HandledCount, of session: Int64) {
        (told.session, told.handled) = (session, Int64(handled.rawValue))
        lock.note(told)
    }

    /// Whether this process holds the lock too, as it does unless it passed a frozen owner over.
    var holdsLock: Bool { lock.isHeld }

    /// Takes the lock as soon as the process that was passed over frees it.
    func takeLockIfFree() { _ = lock.tryToTake() }

    /// Gives the account back: the next one finds the lock free.
    ///
    /// - Parameter last: What is committed together with that, as the owner; whoever waits for the account waits for one
    ///   commit.
    /// - Throws: ``AccountError`` `ownershipLost`, when there is something to commit; ``/Handlers/HandlerError``.
    func release(_ last: ((borrowing Step) throws -> Void)? = nil) throws {
        try Failpoint.beforeRelease.hit()
        answerNobody()
        defer { lock.release() }
        let (table, epoch) = (step.table, step.epoch)
        guard let last else { return try step.store.step { try table.release(epoch: epoch, in: $0) } }
        try step.run { step in
            try last(step)
            try table.release(epoch: epoch, in: step)
        }
    }

    /// Lets go of everything without touching the database: somebody else owns the account.
    func abandon() {
        answerNobody()
        lock.release()
    }

    private func answerNobody() {
        stop.raise()
        thread.join()
    }
}

/// What a process is to an account.
///
/// ```swift
/// configuration.role = .worker
/// ```
public enum AccountRole: String, Hashable, Sendable {
    /// The main program: asks a worker to hand the stream over.
    case main
    /// A short-lived process that a push woke: leaves a live owner alone.
    case worker
}
