/// Giving back a store's files, for a system that kills what holds their locks while it is suspended.
extension HandlerStore {
    /// Gives back everything that this store holds of its files: connections, locks, its place among the processes, the pipe.
    ///
    /// iOS ends an app that is suspended while it holds a lock in a shared container (`0xdead10cc`). Runners stop first: an async handler
    /// that runs is canceled, and another process runs it again. Then ``step(_:)`` and ``read(_:)`` throw `storeSuspended` until
    /// ``resume()``. Suspend accounts before their store, so that they leave their sessions in order.
    ///
    /// ```swift
    /// try await host.close(finishing: .seconds(3))
    /// try store.suspend()
    /// ```
    ///
    /// It waits for the step and the reads that run. In a store that is suspended it does nothing. A store on a server keeps its
    /// connections, which hold no lock of a file, and its place.
    ///
    /// - Throws: ``HandlerError`` `nestedStep` inside a step or a read; nothing is changed then.
    public func suspend() throws {
        guard !isInStep, !database.readers.isReading, !lookers.isReading else {
            throw HandlerError(
                .nestedStep, "the store was suspended inside a step or a read of it; let that end first")
        }
        suspending.withLock { _ in close(suspending: listeners.hooks) }
    }

    /// The same for the moment in which the system takes the time away, as the handler of an expiring background task must.
    ///
    /// ```swift
    /// let isSuspended = await store.suspend(within: .seconds(2))
    /// ```
    ///
    /// - Parameter time: How long to wait for the step and the reads that run, by the machine's clock, 0 or more.
    /// - Returns: Whether the store is suspended. If not, it still will be, as soon as they have ended.
    public func suspend(within time: Duration) async -> Bool {
        let (done, end) = AsyncStream.makeStream(of: Bool.self)
        let suspending = Task.detached { [self] in
            let isSuspended = (try? suspend()) != nil
            end.yield(isSuspended)
        }
        let limit = Task { [sleep = system.sleep] in
            try await sleep(time)
            end.yield(false)
        }
        defer { limit.cancel() }
        for await isSuspended in done { return isSuspended }
        suspending.cancel()
        return false
    }

    /// Takes everything again that ``suspend()`` has given back; runners go on.
    ///
    /// ```swift
    /// try store.resume()
    /// try account.connect()
    /// ```
    ///
    /// In a store that is not suspended it does nothing.
    ///
    /// - Throws: ``HandlerError`` as when the store is opened; then it stays suspended. What a runner throws that cannot go on.
    public func resume() throws {
        try suspending.withLock { _ in
            try reopen()
            for runner in listeners.hooks { try runner.resume() }
        }
    }

    // MARK: Inside

    /// Suspends the store, unless it is.
    private func close(suspending runners: [RunnerHooks]) {
        for runner in runners { runner.suspend() }
        watch.withLock { $0.running.take() }?.cancel()
        database.readers.suspend()
        lookers.suspend()
        lock.withLock { _ in
            if isSuspended { return }
            isSuspended = true
            if traits.isShared { return }
            leave()
            database.closeConnection()
        }
    }

    /// Goes on after ``close(suspending:)``.
    private func reopen() throws {
        let migrated = try lock.withLock { (_) throws(HandlerError) -> [String]? in
            guard isSuspended else { return nil }
            let migrated = traits.isShared ? [] : try connectAgain()
            isSuspended = false
            return migrated
        }
        database.readers.resume()
        lookers.resume()
        guard let migrated else { return }
        logMigrated(migrated)
        do {
            if !traits.isShared { try settle(toMove: false) }
            if watch.withLock({ $0.isWanted }) { try watchChanges() }
        } catch {
            close(suspending: [])
            throw error
        }
    }

    /// Opens the file again and takes a place, as when the store is opened.
    private func connectAgain() throws(HandlerError) -> [String] {
        try database.connectAgain()
        do throws(HandlerError) {
            let migrated = try database.migrate(to: schemas)
            connection.replaceEngine(database.connection)
            let slot = try Self.takePlace(in: database, time)
            presence.withLock { $0 = slot }
            return migrated
        } catch {
            database.closeConnection()
            throw error
        }
    }
}

extension HandlerError {
    static var storeSuspended: HandlerError {
        HandlerError(
            .storeSuspended,
            "the store is suspended, because the system has suspended the program or will; call resume() when it goes on"
        )
    }
}
