extension HandlerRunner {
    /// Ends like ``close()`` once the running async handlers have ended.
    ///
    /// From now on nothing more is called or leased: what is due is left to the next process.
    ///
    /// ```swift
    /// let isClean = await runner.close(finishing: .seconds(10))
    /// ```
    ///
    /// - Parameter time: How long to wait for them at most, by the machine's clock, 0 or more. Those that still run then
    ///   are canceled, and another process runs them again. A canceled caller does not wait any longer either.
    /// - Returns: Whether all of them ended, and what they threw was stored.
    @discardableResult
    public func close(finishing time: Duration) async -> Bool {
        loop.handle(.finishing(id))
        let isDone = (try? await wait(atMost: time) { try await self.leasesEnded() }) != nil
        close()
        return isDone
    }

    /// Waits until no async handler runs here any more, and what they threw is stored.
    private func leasesEnded() async throws {
        while true {
            let seen = passes.count
            let (runs, isSettled) = state.withLock { (!$0.leases.isEmpty, $0.unsettled.isEmpty) }
            if isClosed || !runs && isSettled { return }
            // Without a thread no pass will come that tries again.
            if !runs && !isStarted { return try settleOnce() }
            try await passes.wait(beyond: seen)
        }
    }

    // MARK: Suspending

    var isSuspended: Bool { state.withLock { $0.wasStarted != nil } }

    /// Stops like ``close()`` until ``resume()``, and keeps what it serves.
    func suspend() {
        let wasStarted = isStarted
        let isFirst = state.withLock { state in
            if state.isClosed || state.wasStarted != nil { return false }
            state.wasStarted = wasStarted
            return true
        }
        guard isFirst else { return }
        loop.stop(self)
        let living = loop.withMachine { [id] in $0.halt(id) }
        let old = state.withLock { state in
            let old = (leases: state.leases, unsettled: state.unsettled)
            (state.leases, state.unsettled) = ([:], [])
            return old
        }
        for _ in old.leases { loop.handle(.leaseEnded(id, isUnsettled: false)) }
        passes.announce()
        giveBack(Array(old.leases.values), old.unsettled, living)
    }

    /// Goes on as before ``suspend()``.
    func resume() throws {
        let wasStarted = state.withLock { $0.wasStarted.take() }
        if wasStarted == true, !isClosed { try start() }
    }

    /// Returns leases and stops connected times, and then cancels what ran: it must not count as failed, or as done.
    func giveBack(_ attempts: [Attempt], _ unsettled: [Unsettled], _ living: Set<HandlerScope?>) {
        let attempts = attempts.sorted { $0.lease.handler.rawValue < $1.lease.handler.rawValue }
        defer { for attempt in attempts { attempt.cancel() } }
        let leases = attempts.map(\.lease) + unsettled.map(\.lease)
        if leases.isEmpty && living.isEmpty { return }
        do {
            try store.step { step in
                for lease in leases { try step.transaction.leases.giveBack(lease) }
                for scope in living { try step.transaction.connectedTime.stop(of: scope) }
            }
        } catch {
            // The store gives the rows back when it goes, and another process when this one has died.
            failed(error)
        }
    }

    private var isStarted: Bool { loop.withMachine { [id] in $0.started.contains(id) } }

    private func settleOnce() throws {
        do {
            _ = try loop.withLooking { try settle() }
        } catch {
            failed(error)
            throw error
        }
    }

    /// Calls everything that is due now, without a thread, and what the async handlers among it make due.
    ///
    /// - Parameter time: How long at most, by the machine's clock.
    /// - Returns: How long it may rest until something is due; nil when nothing is.
    /// - Throws: ``HandlerError`` when the store fails or the runner was closed; `CancellationError` also when the time is over.
    package func finishDue(within time: Duration) async throws -> Duration? {
        try await wait(atMost: time) { [self] in
            while true {
                let (seen, ended) = (passes.count, leases.ended)
                let rest = try runDue()
                // One that ended during the pass may have left something due that the pass did not see.
                let isIdle = leases == (0, ended)
                if isIdle { return rest }
                try await passes.wait(beyond: seen)
            }
        }
    }

    /// The number of async handlers that run, and of those that have run.
    private var leases: (running: Int, ended: Int) {
        loop.withMachine { [id] in ($0.runners[id]?.leasesTaken ?? 0, $0.runners[id]?.leasesEnded ?? 0) }
    }

    /// Waits for `body`, but not longer than `time` and not beyond the cancellation of the caller.
    ///
    /// - Throws: What `body` throws; `CancellationError` when it was canceled.
    func wait<Value: Sendable>(
        atMost time: Duration, for body: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let waiting = Task { try await body() }
        let limit = Task { [sleep = store.system.sleep] in
            try await sleep(time)
            waiting.cancel()
        }
        defer { limit.cancel() }
        return try await withTaskCancellationHandler {
            try await waiting.value
        } onCancel: {
            waiting.cancel()
        }
    }
}
