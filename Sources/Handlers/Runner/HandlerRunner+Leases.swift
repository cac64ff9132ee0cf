/// Async handlers: each runs in a task of its own while this process holds its lease.
extension HandlerRunner {
    func run(_ lease: Lease) {
        guard case .leased(let body)? = store.registry.definition(named: lease.stored.name)?.body else {
            return
        }
        let isTaken = state.withLock { state in
            if state.isClosed { return false }
            state.leases[ObjectIdentifier(lease)] = (lease, Task { [self] in await run(lease, body) })
            return true
        }
        // Closed between the commit of the lease and now.
        if !isTaken { giveBack(lease) }
    }

    private func run(_ lease: Lease, _ body: @Sendable (Invocation, Lease) async throws -> Void) async {
        var unsettled: Unsettled?
        do {
            try Failpoint.afterLease.hit()
            // A runner that was closed before this task began has given the lease back: another process runs it.
            guard state.withLock({ $0.leases[ObjectIdentifier(lease)] != nil }) else { return }
            unsettled = await lease.run(body)
        } catch {
            failed(error)
        }
        if let unsettled { failed(unsettled.failure) }
        state.withLock { state in
            if let unsettled { state.unsettled.append(unsettled) }
            state.leases[ObjectIdentifier(lease)] = nil
            state.leasesEnded += 1
        }
        // A closed runner makes no further pass, which would store the failure.
        if let unsettled, isClosed { giveBack(unsettled.lease) }
        if unsettled != nil { loop.addUnsettled(self) }
        passes.announce()
        lookAtStarved()
        loop.wakeDrains()
    }

    private func giveBack(_ lease: Lease) {
        do {
            try store.step { try $0.transaction.giveBack(lease) }
        } catch {
            // The store frees the row when it closes. After a death, another process frees it.
            failed(error)
        }
    }

    /// Stores the failures of handlers whose failure could not be stored when it happened.
    func settle() throws {
        while let next = state.withLock({ $0.unsettled.first }) {
            try store.step { try $0.transaction.fail(next.lease, next.error) }
            state.withLock { state in state.unsettled.removeAll { $0.lease === next.lease } }
        }
    }
}
