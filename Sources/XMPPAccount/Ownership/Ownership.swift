package import Handlers
import XMPPTransport

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
///
/// `@unchecked Sendable`: the task that takes over gives its only reference to the account's loop.
final class Ownership: @unchecked Sendable {
    /// The step for the commits of this process for the stream.
    let step: OwnerStep
    private let place: any OwnerPlace
    /// The connected time of a stream that was suspended, until ``release()`` commits it.
    var suspendedAt: Duration?
    /// The count that the server has received.
    private var sent: SentProgress

    private init(step: OwnerStep, place: any OwnerPlace) {
        self.step = step
        self.place = place
        sent = SentProgress(epoch: step.epoch)
    }

    /// The lock file, if others had access to it until now.
    var narrowedFile: String? { place.narrowedFile }

    /// Takes the account over.
    ///
    /// - Parameters:
    ///   - store: The database.
    ///   - places: Where processes agree on the owner.
    ///   - role: Whether this process leaves a live owner alone (`worker`) or asks it to hand over (`main`).
    ///   - silence: How long an owner may take to answer before it counts as frozen, in milliseconds.
    ///   - loop: What waits.
    ///   - handOver: Called on another thread when a main program asks a worker for the stream.
    /// - Throws: ``AccountError`` `ownershipHeld` when the owner is alive and keeps the stream;
    ///   ``/Handlers/HandlerError`` when the store fails, `databaseLocked` when a frozen process sits inside a write
    ///   transaction.
    static func acquire(
        _ table: OwnershipTable, store: HandlerStore, places: any OwnerPlaces,
        role: AccountRole, owner: String, silence: Duration, on loop: EventLoop,
        handOver: @escaping @Sendable () -> Void
    ) async throws -> Ownership {
        let place = try places.open(account: table.account, store)
        let deadline = loop.deadline(after: patience(silence))
        try await waitForOwner(place, role: role, until: deadline, on: loop)
        try Failpoint.afterLock.hit()
        // Questions are received from inside the step on: the process that raised the epoch last answers.
        let (epoch, losses) = try store.step { step in
            if place.mayLackCommits { try table.giveUpCopied(sent: nil, isLocked: { false }, in: step) }
            let epoch = try table.takeOver(
                owner: owner, slot: store.slotNumber, past: place.sent, in: step)
            try place.listen()
            return (epoch, store.losses)
        }
        place.record(SentProgress(epoch: epoch))
        try Failpoint.afterTakeover.hit()
        place.answer { question in
            // A worker lets the main program have the stream; a main program keeps it.
            guard question == .handOver, role == .worker else { return .keeping }
            handOver()
            return .releasing
        }
        return Ownership(
            step: OwnerStep(store: store, table: table, epoch: epoch, losses: losses), place: place)
    }

    /// The wait between two checks of the lock of an owner that was killed.
    private static let pause = Duration.milliseconds(1)
    /// The maximum part of the silence that is kept for the takeover itself.
    private static let longestTakeOver = Duration.milliseconds(25)

    /// Returns the wait for a silent owner. The rest of the silence is for the takeover, which is one transaction.
    static func patience(_ silence: Duration) -> Duration { silence - min(silence / 20, longestTakeOver) }

    /// Returns when the lock is taken or the owner has been silent for too long.
    private static func waitForOwner(
        _ place: any OwnerPlace, role: AccountRole, until deadline: Deadline, on loop: EventLoop
    ) async throws(AccountError) {
        let question: OwnerQuestion = role == .worker ? .isAlive : .handOver
        while true {
            let isLocked = place.tryToLock()
            // Also where the lock was free: an owner that passed a frozen one over may not hold it yet.
            switch await place.ask(question, until: deadline, on: loop) {
            case nil where isLocked: return
            case .keeping:
                place.unlock()
                throw AccountError(
                    .ownershipHeld,
                    "another process is alive and keeps this account's stream; let it do the work")
            case .releasing, nil:
                // Letting go, starting or dying: the lock tells, until the owner counts as frozen.
                if loop.isPassed(deadline) { return }
                await loop.sleep(pause)
            }
        }
    }

    /// Records that the outbox is about to be written up to a row.
    func willWrite(upTo row: Int64) {
        sent.written = row
        place.record(sent)
    }

    /// Records the `h` that is about to be sent.
    func willAcknowledge(_ h: HandledCount, of session: Int64) {
        (sent.session, sent.h) = (session, Int64(h.rawValue))
        place.record(sent)
    }

    /// Whether this process holds the lock too, as it does unless it passed a frozen owner over.
    var holdsLock: Bool { place.holdsLock }

    /// Acquires the lock once the process that was passed over has freed it.
    func acquireLockIfFree() { _ = place.tryToLock() }

    /// Gives the account back: the next owner finds the lock free. The end of a suspended stream is in the same commit.
    ///
    /// - Throws: ``AccountError`` `ownershipLost` when a stream was suspended; ``/Handlers/HandlerError``.
    func release() throws {
        try Failpoint.beforeRelease.hit()
        place.stopAnswering()
        defer { place.unlock() }
        try step.release(suspendedAt: suspendedAt)
    }

    /// Releases everything without changing the database: another process owns the account.
    func abandon() {
        place.stopAnswering()
        place.unlock()
    }
}

/// Role of a process for an account: the main program asks a worker to hand the stream over, and a worker leaves a live
/// owner alone.
package typealias AccountRole = HandlerStore.Role
