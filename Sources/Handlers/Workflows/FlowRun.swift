import Platform
import Synchronization

/// One run of a workflow's function, from its start to its end or to where it waits; a part of one step.
final class FlowRun: Sendable {
    /// The maximum number of places in a journal.
    static let maximumEntries = 10_000
    /// So long after its first new operation, by the monotonic clock, a run ends and goes on in the next step: others wait for this one.
    private static let slice = Duration.milliseconds(5)

    /// What becomes of the workflow.
    enum End {
        /// It waits for a place of its journal to be filled.
        case waits
        /// It runs again at once.
        case goesOn
        /// It has ended, with a result as JSON; nil for none.
        case ended([UInt8]?)
        /// Its function threw, or returned what cannot be stored.
        case failed(any Error)
    }

    struct State {
        var journal: [FlowEntry]
        /// The number of places of the journal that the store has.
        var written: Int
        /// The place of the next operation.
        var position = 0
        /// When the first operation started that is not in the journal, by the monotonic clock.
        var start: Duration?
        var now: Timestamp
        var key: String?
        var random: SplitMix?
        /// Why no operation counts any more: what becomes of the workflow, or why it cannot go on here.
        var stop: Result<End, any Error>?
        /// The numbers of operations that tasks have tried after the stop.
        var late: [Int: Int] = [:]
        /// Whether an operation was tried on another thread.
        var isForeign = false
    }

    /// Thrown by all operations after the run was stopped.
    private struct Stopped: Error, CustomStringConvertible {
        let description =
            "the workflow waits, and its function runs again later; nothing that it does until then counts"
    }

    let workflow: AnyHandlerID
    /// Whose environment its handlers get.
    let scope: HandlerScope?
    /// The thread of the step, on which the function runs.
    let thread = ThreadID.current
    let name: Name
    private let log: HandlerLog?
    let state: Mutex<State>
    /// Touched only by operations before the stop, all of which run on the thread of the step. A task that stays for ever does not keep it.
    nonisolated(unsafe) unowned let transaction: Transaction

    init(_ stored: StoredHandler, _ context: TimerFired, _ transaction: Transaction) throws(HandlerError) {
        guard let id = stored.id else {
            throw HandlerError(
                .noSuchHandler, "the workflow '\(stored.name)' has no row; start it with step.start")
        }
        workflow = id
        scope = context.environment?.scope
        name = stored.name
        log = transaction.log
        self.transaction = transaction
        let journal = stored.relations.contains(.workflow) ? try Step(transaction).journal(of: id) : []
        state = Mutex(State(journal: journal, written: journal.count, now: context.dueAt))
    }

    // MARK: Driving

    /// Runs the function on this thread.
    func drive<Output: Encodable & Sendable>(
        _ body: @escaping @Sendable (Flow) async throws -> Output
    ) throws -> End {
        let executor = FlowExecutor()
        let outcome = Mutex<Result<Output, any Error>?>(nil)
        Task(executorPreference: executor) {
            let result: Result<Output, any Error>
            do { result = .success(try await body(Flow(run: self))) } catch { result = .failure(error) }
            outcome.withLock { $0 = result }
        }
        executor.drain()
        let (stop, isWhole, isForeign) = state.withLock { state in
            defer { if state.stop == nil { state.stop = .success(.waits) } }
            return (state.stop, state.position >= state.journal.count, state.isForeign)
        }
        defer {
            // A task that stays keeps no journal.
            state.withLock { state in state.journal = [] }
        }
        executor.close()
        if isForeign || executor.isForeign { throw foreignWait }
        return try end(stop, outcome.withLock { $0 }, isWhole)
    }

    private func end<Output: Encodable>(
        _ stop: Result<End, any Error>?, _ outcome: Result<Output, any Error>?, _ isWhole: Bool
    ) throws -> End {
        switch (stop, outcome) {
        case (let stop?, _):
            let end = try stop.get()
            try write()
            return end
        case (nil, nil): throw foreignWait
        case (nil, _?) where !isWhole: throw tooLong
        case (nil, .success(let value)?):
            // One that cannot be stored fails the workflow, as an error of its function does.
            do { return .ended(value is Nothing ? nil : try HandlerResult(value).bytes) } catch {
                return try failed(error)
            }
        case (nil, .failure(let error)?): return try failed(error)
        }
    }

    private func failed(_ error: any Error) throws -> End {
        // Its compensations are there.
        try write()
        return .failed(error)
    }

    /// Stores the places that are new.
    private func write() throws(HandlerError) {
        let new = state.withLock { state in
            defer { state.written = state.journal.count }
            return Array(state.journal.enumerated().dropFirst(state.written))
        }
        for (position, entry) in new where !(BuiltInFault.forgetPlace.isOn && entry.operation != "sleep") {
            try write(entry, at: position)
        }
    }

    private func write(_ entry: FlowEntry, at position: Int) throws(HandlerError) {
        if position == 0 { try transaction.handlers.add(.workflow, to: workflow) }
        try transaction.journals.write(entry, at: FlowPlace(workflow: workflow, position: position))
    }

    /// Stores the places that are new, before the run ends.
    func writeNow() throws {
        do { try write() } catch { throw stop(.failure(error)) }
    }

    // MARK: Operations

    /// Carries out an operation that has its value at once, or finds it in the journal.
    ///
    /// - Parameter body: Carries it out, and returns its value as JSON.
    /// - Returns: The value.
    /// - Throws: ``HandlerError`` `operationFailed` when it failed, now or earlier; after the stop of the run another error.
    func perform(
        _ kind: String, _ name: String = "", _ body: (borrowing Step) throws -> [UInt8]
    ) async throws -> [UInt8] {
        if isLooping { await stay() }
        let operation = Self.operation(kind, name)
        let (_, known) = try next(operation)
        if let known { return try pass(known) }
        var entry = FlowEntry(operation: operation, at: transaction.now)
        do {
            entry.error = try failure { entry.value = try body(Step(transaction)) }
        } catch { throw stop(.failure(error)) }
        if entry.error != nil { entry.value = nil }
        state.withLock { $0.journal.append(entry) }
        return try pass(entry)
    }

    /// Waits for what a handler puts into the journal, or finds it there.
    ///
    /// - Parameter bind: Binds that handler.
    func wait(
        _ kind: String, _ name: String = "",
        _ bind: (borrowing Step, FlowPlace) throws -> AnyHandlerID
    ) async throws -> [UInt8] {
        if isLooping { await stay() }
        let operation = Self.operation(kind, name)
        let (place, known) = try next(operation)
        if let known {
            if known.isOpen { throw stop(.success(.waits)) }
            return try pass(known)
        }
        let entry: FlowEntry?
        do {
            try write()
            try write(
                FlowEntry(operation: operation, at: transaction.now), at: place.position)
            let error = try failure {
                try transaction.journals.set(waiter: bind(Step(transaction), place), at: place)
            }
            if let error { try transaction.journals.resolve(place, error: error) }
            // What it waits for may have come with this.
            entry = try Step(transaction).entry(at: place)
        } catch { throw stop(.failure(error)) }
        guard let entry else { throw stop(.failure(mismatch(place, "nothing", operation))) }
        state.withLock { state in
            state.journal.append(entry)
            state.written = state.journal.count
        }
        if entry.isOpen { throw stop(.success(.waits)) }
        return try pass(entry)
    }

    static func operation(_ kind: String, _ name: String) -> Name {
        Name((name.isEmpty ? kind : "\(kind) \(name)").cut(toBytes: 600))
    }

    /// The next place, and what the journal holds there.
    private func next(_ operation: Name) throws -> (FlowPlace, FlowEntry?) {
        let (position, known) = try state.withLock { state in
            if ThreadID.current != thread { state.isForeign = true }
            guard state.stop == nil, !state.isForeign else {
                state.late[Self.task, default: 0] += 1
                throw Stopped()
            }
            defer { state.position += 1 }
            return (
                state.position, state.position < state.journal.count ? state.journal[state.position] : nil
            )
        }
        let place = FlowPlace(workflow: workflow, position: position)
        if let known {
            guard known.operation == operation || canonical(known.operation) == canonical(operation) else {
                throw stop(.failure(mismatch(place, known.operation, operation)))
            }
        } else {
            guard position < Self.maximumEntries else { throw stop(.failure(tooManyEntries)) }
            let isNew = state.withLock { $0.written < $0.journal.count }
            let now = transaction.monotonicNow
            let start = state.withLock { state in
                if state.start == nil { state.start = now }
                return state.start ?? now
            }
            if isNew, now - start > Self.slice { throw stop(.success(.goesOn)) }
        }
        return (place, known)
    }

    /// The operation with the names that handlers have now: one may have been renamed.
    private func canonical(_ operation: Name) -> [Name] {
        operation.utf8.split(separator: UInt8(ascii: " ")).map { word in
            let name = Name(decoding: word.last == UInt8(ascii: ",") ? word.dropLast() : word)
            return transaction.registry.definition(named: name)?.id ?? name
        }
    }

    /// Undoes what a body wrote that throws. The error is a result, too: in each later run the operation fails in the same way.
    ///
    /// - Returns: The sentence of the error; nil for none.
    private func failure(_ body: () throws -> Void) throws -> StoredReason? {
        do {
            try transaction.undoingOnError(body)
            return nil
        } catch {
            // A newer program may know what this one does not.
            guard transaction.connection.isUsable, !UnfinishedCall.isUnknown(error),
                (error as? HandlerError)?.isStorageFailure != true
            else { throw error }
            return StoredReason(error)
        }
    }

    private func pass(_ entry: FlowEntry) throws -> [UInt8] {
        state.withLock { $0.now = entry.at }
        if let error = entry.error { throw HandlerError(.operationFailed, error.words) }
        return entry.value ?? []
    }

    func stop(_ stop: Result<End, any Error>) -> any Error {
        state.withLock { $0.stop = stop }
        return Stopped()
    }

    /// The maximum number of operations that are tried after the stop of a run: a loop that goes on after errors would never end.
    private static let maximumLate = 1000

    private var isLooping: Bool { state.withLock { $0.late[Self.task, default: 0] >= Self.maximumLate } }

    private static var task: Int { withUnsafeCurrentTask { $0?.hashValue ?? 0 } }

    /// Stops a task that goes on: it stays where it is, for ever.
    private func stay() async {
        log?.write(.warning, .handlers) {
            "the workflow \(self.workflow) ('\(self.name)') goes on after its run has ended; let its loop end when an operation throws"
        }
        await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
    }
}
