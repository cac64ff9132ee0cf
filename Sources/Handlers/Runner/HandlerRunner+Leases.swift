/// Async handlers: each runs in a task of its own while this process holds its lease.
extension HandlerRunner {
    func run(_ lease: Lease) {
        guard let definition = store.registry.definition(named: lease.stored.name),
            case .leased(let body) = definition.body
        else { return }
        let attempt = Attempt(lease)
        let isTaken = state.withLock { state in
            if state.isClosed || state.wasStarted != nil { return false }
            state.leases[ObjectIdentifier(lease)] = attempt
            return true
        }
        // Closed or suspended between the commit of the lease and now.
        if !isTaken { return giveBack(lease) }
        loop.handle(.leaseTaken(id))
        attempt.start {
            Task(executorPreference: store.system.asyncHandlers) { [self] in
                await run(attempt, definition, body)
            }
        }
    }

    private func run(
        _ attempt: Attempt, _ definition: Definition,
        _ body: @Sendable (Invocation, Lease) async throws -> Void
    ) async {
        defer { attempt.ended() }
        var unsettled: Unsettled?
        do {
            try Failpoint.afterLease.hit()
            // A runner that was closed before this task began has given the lease back: another process runs it.
            guard state.withLock({ $0.leases[ObjectIdentifier(attempt.lease)] != nil }) else { return }
            if definition.limit != nil || definition.silence != nil {
                attempt.wait {
                    Task { [self] in await watch(attempt, definition.limit, silence: definition.silence) }
                }
            }
            unsettled = await attempt.lease.run(body) { attempt.cause ?? $0 }
        } catch {
            failed(error)
        }
        finish(attempt, unsettled)
    }

    /// Frees the place of an attempt that has ended.
    ///
    /// - Parameter unsettled: Its failure if that could not be stored.
    /// - Returns: False when that was done before.
    @discardableResult
    private func finish(_ attempt: Attempt, _ unsettled: Unsettled?) -> Bool {
        let isHere = state.withLock { state in
            guard state.leases.removeValue(forKey: ObjectIdentifier(attempt.lease)) != nil else {
                return false
            }
            if let unsettled { state.unsettled.append(unsettled) }
            return true
        }
        if let unsettled { failed(unsettled.failure) }
        // A closed runner makes no further pass, which would store the failure.
        if let unsettled, isClosed { giveBack(unsettled.lease) }
        if isHere { loop.handle(.leaseEnded(id, isUnsettled: unsettled != nil)) }
        passes.announce()
        return isHere
    }

    private func giveBack(_ lease: Lease) {
        do {
            try store.step { try $0.transaction.leases.giveBack(lease) }
        } catch {
            // The store frees the row when it closes. After a death, another process frees it.
            failed(error)
        }
    }

    /// Stores the failures of handlers whose failure could not be stored when it happened.
    ///
    /// - Returns: Whether there were any.
    func settle() throws -> Bool {
        var isChanged = false
        while let next = state.withLock({ $0.unsettled.first }) {
            try store.step { try $0.transaction.leases.fail(next.lease, next.error) }
            state.withLock { state in state.unsettled.removeAll { $0.lease === next.lease } }
            isChanged = true
        }
        return isChanged
    }

    // MARK: Canceling

    /// The parts of a silence after each of which is looked whether the handler has saved its progress.
    private static let silenceParts = 4

    /// Cancels an attempt at its limit, or when it has saved nothing for too long.
    private func watch(_ attempt: Attempt, _ limit: Duration?, silence: Duration?) async {
        let (lease, part) = (attempt.lease, silence.map { $0 / Self.silenceParts })
        var (left, saves, silentParts) = (limit, lease.saveCount, 0)
        while true {
            guard let pause = [left, part].compactMap(\.self).min() else { return }
            do { try await store.system.sleep(pause) } catch { return }
            if let rest = left, let limit {
                left = rest - pause
                if rest <= pause {
                    return cancel(
                        attempt,
                        because: HandlerError(
                            .tookTooLong,
                            "the handler '\(lease.stored.name)' took longer than its limit of \(limit)"))
                }
            }
            silentParts = lease.saveCount == saves ? silentParts + 1 : 0
            saves = lease.saveCount
            if let silence, silentParts >= Self.silenceParts {
                return cancel(
                    attempt,
                    because: HandlerError(
                        .fellSilent,
                        "the handler '\(lease.stored.name)' saved no progress for its limit of silence, \(silence)"
                    ))
            }
        }
    }

    /// Cancels an attempt, and waits for its end no longer than the grace.
    private func cancel(_ attempt: Attempt, because cause: HandlerError) {
        attempt.cancel(because: cause) {
            Task { [self] in
                do { try await store.system.sleep(grace) } catch { return }
                abandon(attempt, cause)
            }
        }
    }

    /// Lets an attempt go that goes on although it was canceled. It can no longer end the handler, whose row is tried again.
    private func abandon(_ attempt: Attempt, _ cause: HandlerError) {
        let lease = attempt.lease
        guard !lease.hasEnded, state.withLock({ $0.leases[ObjectIdentifier(lease)] != nil }) else { return }
        var unsettled: Unsettled?
        lease.abandon(cause)
        do {
            try store.step { try $0.transaction.leases.fail(lease, cause) }
        } catch {
            unsettled = Unsettled(lease: lease, error: cause, failure: error)
        }
        guard finish(attempt, unsettled) else { return }
        abandoned.add(1, ordering: .relaxed)
        store.log?.write(.warning, .handlers) {
            "the handler \(lease.handler) ('\(lease.stored.name)') goes on \(self.grace) after it was canceled; it is waited for no longer"
        }
    }

    /// Cancels the handlers whose lease this process has lost: they were invalidated or discarded.
    ///
    /// - Throws: ``HandlerError`` when the store fails.
    func cancelLost() throws {
        let attempts = state.withLock { $0.leases.values.map(\.self) }.sorted {
            $0.lease.handler.rawValue < $1.lease.handler.rawValue
        }
        if attempts.isEmpty { return }
        let held = try store.step { try $0.transaction.leases.held() }
        for attempt in attempts where !attempt.lease.hasEnded {
            guard held[attempt.lease.handler] != attempt.lease.epoch else { continue }
            cancel(attempt, because: attempt.lease.lost("it was ended meanwhile"))
        }
    }
}
