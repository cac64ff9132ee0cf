import Synchronization

/// The right of one process to run an async handler and to end it: a row in the state "leased" with an epoch.
///
/// The process that takes the row raises its epoch, so an earlier process finds that its own epoch is out of date.
final class Lease: Sendable {
    let handler: AnyHandlerID
    let attempt: Int
    let epoch: Int64
    /// When it was taken, by the wall clock.
    let startedAt: Timestamp
    let idempotencyKey: String
    let stored: StoredHandler
    let call: StoredCall
    let context: any Sendable
    let store: HandlerStore
    /// Set while a closing step runs and after it succeeded.
    private let isClosed = Mutex(false)
    /// The number of times that it has saved its progress.
    let saves = Atomic(0)
    /// Why this process has taken the lease from the handler; nil while it has not.
    private let loss = Mutex<String?>(nil)

    init(
        handler: AnyHandlerID, attempt: Int, epoch: Int64, startedAt: Timestamp, idempotencyKey: String,
        stored: StoredHandler, call: StoredCall, context: any Sendable, store: HandlerStore
    ) {
        self.handler = handler
        self.attempt = attempt
        self.epoch = epoch
        self.startedAt = startedAt
        self.idempotencyKey = idempotencyKey
        self.stored = stored
        self.call = call
        self.context = context
        self.store = store
    }

    /// Whether a closing step runs, or has succeeded.
    var hasEnded: Bool { isClosed.withLock { $0 } }

    /// Runs the handler to its end, whichever it is.
    ///
    /// - Parameter cause: Returns the error with which the attempt fails, from the one that was thrown.
    /// - Returns: What is still to be stored, because the store failed as well; else nil.
    func run(
        _ body: @Sendable (Invocation, Lease) async throws -> Void,
        failingWith cause: (any Error) -> any Error
    ) async -> Unsettled? {
        do {
            try await body(
                Invocation(stored: stored, overrides: call.overrides ?? Record(), context: context), self)
            if !isClosed.withLock({ $0 }) {
                // Who returns because it was canceled has not done what it was to do.
                try Task.checkCancellation()
                try close { _ in }
            }
        } catch  where isClosed.withLock({ $0 }) {
            // It has ended; what came after that changes nothing.
        } catch {
            return fail(cause(error))
        }
        return nil
    }

    private func fail(_ error: any Error) -> Unsettled? {
        // Somebody else runs it, or ended it.
        if (error as? HandlerError)?.code == .leaseLost { return nil }
        do {
            try store.step { try $0.transaction.leases.fail(self, error) }
            return nil
        } catch let failure { return Unsettled(lease: self, error: error, failure: failure) }
    }

    /// How often it has saved its progress.
    var saveCount: Int { saves.load(ordering: .relaxed) }

    /// Takes the lease from a handler that goes on although it was canceled.
    func abandon(_ cause: HandlerError) { loss.withLock { $0 = cause.message } }

    /// Reads the store of the handler.
    func read<R>(_ body: (borrowing Snapshot) throws -> R) throws -> R { try store.read(body) }

    /// The closing step.
    ///
    /// - Parameter result: What the handler returns, as JSON; nil for nothing.
    func close<R>(returning result: [UInt8]? = nil, _ effects: (borrowing Step) throws -> R) throws -> R {
        guard
            isClosed.withLock({ isClosed in
                defer { isClosed = true }
                return !isClosed
            })
        else { throw lost("it has ended") }
        do {
            try Failpoint.beforeClosing.hit()
            return try store.step { try $0.transaction.leases.close(self, returning: result, effects) }
        } catch {
            isClosed.withLock { $0 = false }
            throw error
        }
    }

    /// - Parameter reason: Why; nil for what this process knows about it.
    func lost(_ reason: String? = nil) -> HandlerError {
        let reason =
            reason ?? loss.withLock { $0 } ?? "another process runs it, or it was ended meanwhile"
        return HandlerError(
            .leaseLost,
            "the handler \(handler) ('\(stored.name)') has lost its lease: \(reason); nothing was written")
    }
}

/// An async handler that failed, and the store with it.
struct Unsettled: Sendable {
    let lease: Lease
    /// The error of the handler.
    let error: any Error
    /// The error while that error was stored.
    let failure: any Error
}
