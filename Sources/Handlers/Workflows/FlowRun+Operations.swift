import Platform

/// What the function of a workflow does through its ``Flow``.
extension FlowRun {
    /// Carries out an operation that has its value at once, or finds it in the journal.
    ///
    /// - Parameter body: Carries it out, and returns its value as JSON.
    /// - Returns: The value.
    /// - Throws: ``HandlerError`` `operationFailed` when it failed, now or earlier; after the stop of the run another error.
    func perform(
        _ kind: String, _ name: String = "", _ body: (borrowing Step) throws -> [UInt8]
    ) async throws -> [UInt8] {
        if isLooping { await stay() }
        if isLong { await pause() }
        let operation = Self.operation(kind, name)
        let (place, known) = try next(operation)
        if let known { return try pass(known) }
        var entry = FlowEntry(operation: operation, at: transaction.now)
        do {
            entry.error = try failure { entry.value = try body(Step(transaction)) }
        } catch { throw stop(.failure(error)) }
        if entry.error != nil { entry.value = nil }
        state.withLock { $0.new.append((place.position, entry)) }
        return try pass(entry)
    }

    /// Waits for what a handler puts into the journal, or finds it there.
    ///
    /// - Parameters:
    ///   - mayFillAtOnce: Whether the handler may be called where it is bound.
    ///   - bind: Binds that handler.
    func wait(
        _ kind: String, _ name: String = "", mayFillAtOnce: Bool = false,
        _ bind: (borrowing Step, FlowPlace) throws -> AnyHandlerID
    ) async throws -> [UInt8] {
        if isLooping { await stay() }
        if isLong { await pause() }
        if suspends, Task.isCancelled { throw canceled() }
        let operation = Self.operation(kind, name)
        let (place, known) = try next(operation)
        let entry = try known ?? bound(operation, at: place, mayFillAtOnce, bind)
        if suspends ? entry.isOpen || entry.delivery != nil : entry.isOpen {
            guard suspends else { throw stop(.success(.waits)) }
            return try pass(await result(at: place.position))
        }
        return try pass(entry)
    }

    /// Binds the handler that fills a new place.
    ///
    /// - Returns: The place: filled, if what it waits for has come with this, or cannot be bound.
    private func bound(
        _ operation: Name, at place: FlowPlace, _ mayFillAtOnce: Bool,
        _ bind: (borrowing Step, FlowPlace) throws -> AnyHandlerID
    ) throws -> FlowEntry {
        var entry = FlowEntry(operation: operation, at: transaction.now)
        do {
            try write()
            if mayFillAtOnce { return try boundAfterwards(entry, at: place, bind) }
            var waiter: AnyHandlerID?
            entry.error = try failure { waiter = try bind(Step(transaction), place) }
            try write(entry, at: place.position, waiter: entry.error == nil ? waiter : nil)
        } catch { throw stop(.failure(error)) }
        return entry
    }

    /// The same for a handler that may fill the place where it is bound, so that the place comes first.
    private func boundAfterwards(
        _ new: FlowEntry, at place: FlowPlace,
        _ bind: (borrowing Step, FlowPlace) throws -> AnyHandlerID
    ) throws -> FlowEntry {
        try write(new, at: place.position)
        let error = try failure {
            try transaction.journals.set(waiter: bind(Step(transaction), place), at: place)
        }
        if let error { try transaction.journals.resolve(place, error: error) }
        guard var entry = try Step(transaction).entry(at: place) else {
            throw mismatch(place, "nothing", new.operation)
        }
        // It has its result at once, whatever else has come before.
        if !entry.isOpen { try transaction.journals.passAtOnce(place) }
        entry.delivery = nil
        return entry
    }

    /// Suspends the task until its place is filled.
    private func result(at position: Int) async throws -> FlowEntry {
        try await withTaskCancellationHandler {
            try await withUnsafeThrowingContinuation { continuation in
                state.withLock { $0.waits[position] = continuation }
            }
        } onCancel: {
            state.withLock { state in
                if !executor.isDriven { state.isForeign = true }
                state.canceled.append(position)
            }
        }
    }

    static func operation(_ kind: String, _ name: String) -> Name {
        Name((name.isEmpty ? kind : "\(kind) \(name)").cut(toBytes: 600))
    }

    /// The next place, and what the journal holds there.
    private func next(_ operation: Name) throws -> (FlowPlace, FlowEntry?) {
        let (position, known) = try state.withLock { state in
            if !executor.isDriven, state.stop == nil { state.isForeign = true }
            guard state.stop == nil, !state.isForeign else {
                state.late[Self.task, default: 0] += 1
                throw Stopped()
            }
            defer { state.position += 1 }
            return (state.position, state.known(state.position))
        }
        let place = FlowPlace(workflow: workflow, position: position)
        if let known {
            guard known.operation == operation || canonical(known.operation) == canonical(operation) else {
                throw stop(.failure(mismatch(place, known.operation, operation)))
            }
        } else {
            let count = position - state.withLock { $0.base }
            guard count < Self.maximumEntries else { throw stop(.failure(tooManyEntries)) }
            if Self.warnings.contains(count) { warn(ofEntries: count) }
            let isNew = state.withLock { !$0.new.isEmpty }
            let now = transaction.monotonicNow
            let start = state.withLock { state in
                if state.start == nil { state.start = now }
                return state.start ?? now
            }
            if !suspends, isNew, now - start > Self.slice { throw stop(.success(.goesOn)) }
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

    // MARK: The journal

    /// Stores the places that are new.
    func write() throws(HandlerError) {
        let new = state.withLock { state in
            defer { state.new.removeAll(keepingCapacity: true) }
            return state.new
        }
        for (position, entry) in new where !(BuiltInFault.forgetPlace.isOn && entry.operation != "sleep") {
            try write(entry, at: position)
        }
    }

    private func write(
        _ entry: FlowEntry, at position: Int, waiter: AnyHandlerID? = nil
    ) throws(HandlerError) {
        if position == 0 {
            try transaction.handlers.add(suspends ? [.workflow, .suspends] : .workflow, to: workflow)
        }
        try transaction.journals.write(
            entry, at: FlowPlace(workflow: workflow, position: position), waiter: waiter)
    }

    /// Stores the places that are new, before the run ends.
    func writeNow() throws {
        do { try write() } catch { throw stop(.failure(error)) }
    }

    // MARK: Stopping

    func stop(_ stop: Result<End, any Error>) -> any Error {
        state.withLock { $0.stop = stop }
        return Stopped()
    }

    /// The error of a wait in a canceled task. A task that waits again and again would never end.
    private func canceled() -> any Error {
        state.withLock { $0.late[Self.task, default: 0] += 1 }
        return CancellationError()
    }

    /// Whether this call has taken so long that other steps come first.
    private var isLong: Bool {
        guard suspends, executor.isDriven,
            let start = state.withLock({ state in
                state.stop == nil && state.isWhole ? state.start : nil
            })
        else { return false }
        return transaction.monotonicNow - start > Self.slice
    }

    /// Pauses all tasks until the next call: none of them does anything meanwhile, so that their order stays the same.
    private func pause() async {
        executor.pause()
        await withUnsafeContinuation { continuation in state.withLock { $0.paused = continuation } }
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
