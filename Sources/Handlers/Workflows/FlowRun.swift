import Platform
import Synchronization

/// The function of a workflow, from its start to its end.
///
/// ```text
///   first call ──▶ start ──▶ settle ──▶ deliver a result ──▶ settle ──▶ … ──▶ ended
///                               │            ▲
///                               ▼            │ next call, in O(1)
///                         waits: suspended in memory ──▶ dropped ──▶ the journal is read, and all of it done again
/// ```
/// An operation takes the next place of the journal. One that waits suspends its task, and each result resumes one task. The journal has the
/// order in which results came (`delivery`), so a function that reads its journal takes the same way again. What a task does between two
/// results follows from its code and from the order of jobs in ``FlowExecutor``.
///
/// A journal of the first engine has no such order. Its functions do not suspend: the first operation whose result is not there ends the run.
final class FlowRun: Sendable {
    /// The maximum number of places in a journal.
    static let maximumEntries = 10_000
    /// So long after its first new operation, by the monotonic clock, a run pauses and goes on in the next step: others wait for this one.
    static let slice = Duration.milliseconds(5)

    /// What becomes of the workflow.
    enum End {
        /// It waits for a place of its journal to be filled.
        case waits
        /// It goes on at once.
        case goesOn
        /// It has ended, with a result as JSON; nil for none.
        case ended([UInt8]?)
        /// Its function threw, or returned what cannot be stored.
        case failed(any Error)
        /// It starts again, with these arguments and an empty journal.
        case again(Durable<TimerFired>)
    }

    typealias Body = @Sendable (Flow) async throws -> [UInt8]?

    struct State {
        /// The first place of its journal: places go on where a workflow starts again, so what comes late for an old one finds none.
        let base: Int
        /// What the store has of the journal when the function starts; empty once all of it was passed.
        var journal: [FlowEntry]
        /// The places that the store does not have yet.
        var new: [(position: Int, entry: FlowEntry)] = []
        /// The place of the next operation.
        var position: Int
        /// The tasks that wait for their places to be filled.
        var waits: [Int: UnsafeContinuation<FlowEntry, any Error>] = [:]
        /// The places for which canceled tasks wait.
        var canceled: [Int] = []
        /// The number of the last result that was delivered, and the places whose results were delivered before their turn.
        var delivered: Int64 = 0
        var early: Set<Int> = []
        /// The task that has paused all others.
        var paused: UnsafeContinuation<Void, Never>?
        /// When the first operation of this call started that is not in the journal, by the monotonic clock.
        var start: Duration?
        var now: Timestamp
        var key: String?
        var random: SplitMix?
        /// The number of bytes of the largest result that was delivered.
        var largest = 0
        var isStarted = false
        var outcome: Result<[UInt8]?, any Error>?
        /// Why no operation counts any more: what becomes of the workflow, or why it cannot go on here.
        var stop: Result<End, any Error>?
        /// The numbers of operations that tasks have tried after the stop.
        var late: [Int: Int] = [:]
        /// Whether an operation was tried on another thread.
        var isForeign = false
    }

    /// Thrown by all operations after the run was stopped.
    struct Stopped: Error, CustomStringConvertible {
        let description =
            "the workflow waits, and its function runs again later; nothing that it does until then counts"
    }

    let workflow: AnyHandlerID
    /// Whose environment its handlers get.
    let scope: HandlerScope?
    let name: Name
    /// Whether its tasks suspend; false for a journal of the first engine.
    let suspends: Bool
    let log: HandlerLog?
    let executor = FlowExecutor()
    let state: Mutex<State>
    private let body: Body
    /// The step that drives it; touched only on its thread.
    nonisolated(unsafe) private var step: Transaction?

    init(
        _ stored: StoredHandler, _ context: TimerFired, _ transaction: Transaction, _ body: @escaping Body
    ) throws(HandlerError) {
        guard let id = stored.id else {
            throw HandlerError(
                .noSuchHandler, "the workflow '\(stored.name)' has no row; start it with step.start")
        }
        workflow = id
        scope = context.environment?.scope
        name = stored.name
        log = transaction.log
        self.body = body
        let hasJournal = stored.relations.contains(.workflow)
        suspends = !hasJournal || stored.relations.contains(.suspends)
        let (base, journal) = hasJournal ? try Step(transaction).journal(of: id) : (0, [])
        state = Mutex(State(base: base, journal: journal, position: base, now: context.dueAt))
    }

    /// The step that drives it. Operations come here only then: ``next(_:)`` has thrown for others.
    var transaction: Transaction { step.unsafelyUnwrapped }

    /// About how much memory it needs while it is suspended: its tasks, and a value that they may keep.
    var size: Int { state.withLock { 3072 + 1024 * $0.waits.count + $0.largest } }

    // MARK: Driving

    /// Runs the function on this thread, up to where it waits or ends.
    ///
    /// - Throws: Why it cannot go on here. It is of no use then, like after a step that did not commit.
    func drive(in transaction: Transaction) throws -> End {
        step = transaction
        defer { step = nil }
        transaction.features.filled.remove(workflow)
        state.withLock { $0.start = nil }
        try executor.driven {
            try goOn()
            try deliverAll()
        }
        if executor.isForeign || state.withLock({ $0.isForeign }) { throw foreignWait }
        return try end()
    }

    /// Starts the function, or goes on where it has paused.
    private func goOn() throws {
        let (isStarted, paused) = state.withLock { state in
            defer { (state.isStarted, state.paused) = (true, nil) }
            return (state.isStarted, state.paused)
        }
        if let paused {
            executor.resume { paused.resume() }
        } else if !isStarted {
            Task(executorPreference: executor) { [self] in
                let result: Result<[UInt8]?, any Error>
                do { result = .success(try await body(Flow(run: self))) } catch { result = .failure(error) }
                state.withLock { $0.outcome = result }
            }
        }
        try settle()
        guard suspends, !isStarted else { return }
        let known = state.withLock { state in
            zip(state.base..., state.journal).compactMap { position, entry in
                entry.delivery.flatMap {
                    $0 > 0 ? FlowResult(delivery: $0, position: position, entry: entry) : nil
                }
            }
        }
        try deliver(known.sorted { $0.delivery < $1.delivery })
        transaction.features.filled.remove(workflow)
    }

    private var goesOn: Bool {
        state.withLock { $0.stop == nil && $0.outcome == nil } && !executor.isPaused
    }

    /// Delivers the results that have come since the last one, also those that come meanwhile.
    private func deliverAll() throws {
        guard suspends else { return }
        while goesOn {
            let results = try Step(transaction).results(of: workflow, after: state.withLock { $0.delivered })
            transaction.features.filled.remove(workflow)
            try deliver(results)
            guard results.count == FlowResult.limit || transaction.features.filled.contains(workflow) else {
                return
            }
        }
    }

    private func deliver(_ results: [FlowResult]) throws {
        for result in results where goesOn {
            let (isEarly, wait) = state.withLock { state in
                state.delivered = result.delivery
                state.largest = max(state.largest, result.entry.value?.count ?? 0)
                return (
                    state.early.remove(result.position) != nil,
                    state.waits.removeValue(forKey: result.position)
                )
            }
            if isEarly { continue }
            guard let wait else { throw notAwaited(result) }
            wait.resume(returning: result.entry)
            try settle()
        }
    }

    /// Runs until each task waits. The order is a part of what a journal means: first all jobs, then canceled waits by their places.
    private func settle() throws {
        while true {
            executor.drain()
            guard goesOn else { return }
            let canceled = state.withLock { state in
                defer { state.canceled = [] }
                return state.canceled.sorted()
            }
            if canceled.isEmpty { return }
            for position in canceled { try cancel(position) }
        }
    }

    /// Ends the wait of a canceled task. A result that the store has already is delivered all the same: a signal would be lost otherwise.
    private func cancel(_ position: Int) throws {
        let (wait, known) = state.withLock { state in
            (
                state.waits.removeValue(forKey: position),
                state.known(position)
            )
        }
        guard let wait else { return }
        let place = FlowPlace(workflow: workflow, position: position)
        var entry = known
        if entry?.isOpen ?? true {
            do {
                if try transaction.journals.cancel(place) {
                    return wait.resume(throwing: CancellationError())
                }
                entry = try Step(transaction).entry(at: place)
            } catch {
                // It waits until the run is dropped.
                state.withLock { $0.waits[position] = wait }
                throw error
            }
        }
        guard let entry, entry.delivery != 0 else { return wait.resume(throwing: CancellationError()) }
        state.withLock { state in
            state.early.insert(position)
            state.largest = max(state.largest, entry.value?.count ?? 0)
        }
        wait.resume(returning: entry)
    }

    // MARK: The end of a call

    private func end() throws -> End {
        let (stop, outcome, paused, canGoOn, isWhole, neverCanceled) = state.withLock { state in
            (
                state.stop, state.outcome, state.paused != nil, !state.waits.isEmpty,
                state.isWhole, state.waits.keys.first { state.known($0)?.delivery == 0 }
            )
        }
        if let stop {
            let end = try stop.get()
            // The journal of one that starts again is removed.
            if case .again = end { return end }
            try write()
            return end
        }
        switch outcome {
        case nil where paused: break
        case nil where !canGoOn: throw foreignWait
        case nil where !isWhole: throw waitsTooLong
        case nil: if let neverCanceled { throw notCanceled(neverCanceled) }
        case .some where !isWhole: throw tooLong
        case .success(let value)?: return .ended(value)
        case .failure(let error)?:
            // Its compensations are there.
            try write()
            return .failed(error)
        }
        try write()
        // A suspended run keeps no journal.
        state.withLock { $0.journal = [] }
        return paused ? .goesOn : .waits
    }

    /// Ends the function wherever it waits, by an error: it runs again from its start when it goes on.
    ///
    /// Nothing that it does then counts.
    func drop() {
        executor.driven {
            let (waits, paused) = state.withLock { state in
                if state.stop == nil { state.stop = .success(.waits) }
                defer { (state.waits, state.paused, state.canceled) = ([:], nil, []) }
                return (state.waits.sorted { $0.key < $1.key }.map(\.value), state.paused)
            }
            executor.resume { paused?.resume() }
            for wait in waits { wait.resume(throwing: Stopped()) }
            executor.drain()
        }
        // A task that stays keeps no journal.
        state.withLock { $0.journal = [] }
        executor.close()
    }
}

extension FlowRun.State {
    /// What the journal holds at a place; nil for a new one.
    func known(_ position: Int) -> FlowEntry? {
        position - base < journal.count ? journal[position - base] : nil
    }

    /// Whether all of the journal was passed.
    var isWhole: Bool { position - base >= journal.count }
}

/// Keeps a run that is suspended. When nothing keeps it any more, the run is dropped: so a run whose step did not commit is never resumed.
final class HeldRun: Sendable {
    let run: FlowRun

    init(_ run: FlowRun) { self.run = run }

    deinit { run.drop() }
}
