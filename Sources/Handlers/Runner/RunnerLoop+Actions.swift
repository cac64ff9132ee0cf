/// What a ``RunnerMachine`` wants to be done, each while nothing else looks.
extension RunnerLoop {
    /// The number of rows that one step of a search changes.
    private static let searchLimit = 500
    /// The most steps that drop signals, one after the other.
    private static let mostPieces = 100

    /// - Parameter runner: The one that makes the pass; nil for all that are started.
    func perform(
        _ action: RunnerMachine.Action, in store: HandlerStore, for runner: HandlerRunner?
    ) throws -> RunnerMachine.Outcome {
        switch action {
        case .settle(let id):
            let unsettled = runner ?? state.withLock { $0.started[id] }
            if try unsettled?.settle() == true { unsettled?.passes.announce() }
        case .recover:
            try recoverOwnPlace(in: store)
            try store.recoverDead()
        case .cancelLost(let ids):
            let runners =
                runner.map { [$0] } ?? state.withLock { state in ids.compactMap { state.started[$0] } }
            for runner in runners { try runner.cancelLost() }
        case .hasten:
            let longest = store.registry.longestRetryDelay
            try store.step { try $0.transaction.dueRows.hasten(beyond: longest, limit: Self.searchLimit) }
        case .survey(let includesParked):
            return .surveyed(try survey(store, includesParked: includesParked))
        case .look(let scopes, let isCourteous):
            return .looked(try look(at: scopes, in: store, isCourteous: isCourteous, for: runner))
        case .callParked(let parked):
            _ = try look(at: [parked.scope], in: store, requeueing: parked, for: runner)
        case .findPlaces: return .found(try store.look { try $0.lanes.hasPlaces() })
        case .recallPlaces(let longest): return try recallPlaces(store, longest: longest, for: runner)
        case .prune(let last, let keeping):
            return .pruned(try prune(store, after: last, before: store.time.wall() - keeping))
        case .rest, .fail: break
        }
        return .done
    }

    /// Starts the connected times again, and ends what ran under a lease, when other processes have taken this one for dead.
    private func recoverOwnPlace(in store: HandlerStore) throws {
        guard store.isFenced || store.slotNumber != connectedSlot else { return }
        handle(.wasBuried)
        let scopes = withMachine { $0.connectedScopes }
        connectedSlot = try store.step { step in
            for scope in scopes { try step.transaction.connectedTime.start(of: scope) }
            return store.slotNumber
        }
    }

    private func survey(_ store: HandlerStore, includesParked: Bool) throws -> RunnerMachine.Survey {
        try store.look { transaction in
            let waiting = try transaction.dueRows.waitingScopes(Caller.open(to: store.role, leasing: true))
            return RunnerMachine.Survey(
                wall: waiting.wall, connected: waiting.connected,
                hasPlaces: try transaction.lanes.hasPlaces(),
                parked: includesParked ? try transaction.repairs.parkedByOlder() : [])
        }
    }

    private func recallPlaces(
        _ store: HandlerStore, longest: Duration, for runner: HandlerRunner?
    ) throws -> RunnerMachine.Outcome {
        let callers = Caller.open(to: store.role, leasing: true).map(\.rawValue)
        let look = try store.step { step in
            try step.transaction.lanes.recallPlaces(longest: longest) { scope, caller in
                server(of: scope, for: runner) != nil && callers.contains(caller)
            }
        }
        return .recalled(rest: look.rest, isChanged: look.isChanged)
    }

    /// Removes a few old endings and signals that nobody waited for.
    ///
    /// - Returns: The ending after which the search goes on; nil for none.
    private func prune(
        _ store: HandlerStore, after last: AnyHandlerID, before: Timestamp
    ) throws -> AnyHandlerID? {
        // Signals that nobody takes may come faster than one piece a minute would drop them.
        var pieces = 0
        while pieces < Self.mostPieces,
            try store.step({ try $0.transaction.keys.dropExpiredSignals(limit: Self.searchLimit) })
        {
            pieces += 1
        }
        return try store.step {
            try $0.transaction.repairRecord.prune()
            return try $0.transaction.repairs.pruneEndings(
                before: before, after: last, limit: Self.searchLimit)
        }
    }

    /// The runner that calls what is due in a scope: the one that makes the pass, if there is one.
    func server(of scope: HandlerScope?, for runner: HandlerRunner?) -> HandlerRunner? {
        if let runner { return runner.serves(scope) ? runner : nil }
        return state.withLock { state in state.machine.server(of: scope).flatMap { state.started[$0] } }
    }
}
