import Platform

/// The connections of a store that only read: opened when first needed, each lent to one read at a time.
///
/// `@unchecked Sendable`: a connection is used by the thread that took it out of `idle`, and by no other.
package final class ReaderPool: @unchecked Sendable {
    private let open: @Sendable () throws(HandlerError) -> any SQLConnection
    private let state = Monitor(State())

    private struct State {
        var idle: [any SQLConnection] = []
        /// The threads that read now.
        var threads: [ThreadID] = []
    }

    /// Makes an empty pool.
    ///
    /// - Parameter open: Opens a connection that only reads.
    package init(_ open: @escaping @Sendable () throws(HandlerError) -> any SQLConnection) {
        self.open = open
    }

    /// Makes another pool on the same database, for reads that must not wait for those of the program.
    func another() -> ReaderPool { ReaderPool(open) }

    /// Lends the state that was committed last to `body`, once fewer than ``HandlerStore/maximumReads`` run.
    ///
    /// - Parameters:
    ///   - time: The clock for ``Snapshot/now``.
    ///   - isFixed: Whether `body` gets the state of this moment, and not that of its first statement.
    ///   - isAwaited: Whether it waits for a database that is away, and runs `body` again where its connection was lost. It does so in any
    ///     case where tables have changed since the connection was used last.
    func read<R>(
        _ time: TimeSource, isFixed: Bool = true, isAwaited: Bool = true,
        _ body: (borrowing Snapshot) throws -> R
    ) throws -> R {
        let idle = try enter()
        var kept: (any SQLConnection)?
        defer { leave(kept) }
        let connection = try idle ?? open()
        do {
            let result = try repeating(connection, isAwaited) {
                try Snapshot.lend(
                    of: Connection(connection), time,
                    check: { () throws(HandlerError) in if isFixed { try connection.checkIsStore() } },
                    to: body)
            }
            kept = connection
            return result
        } catch {
            // One whose storage failed is closed, for it may keep a damaged page; the next read opens another.
            if (error as? HandlerError)?.isStorageFailure != true { kept = connection } else { close() }
            throw error
        }
    }

    private func repeating<R>(
        _ connection: any SQLConnection, _ isAwaited: Bool, _ read: () throws -> R
    ) throws -> R {
        while true {
            do {
                return try read()
            } catch {
                let isLost = (error as? HandlerError)?.isStorageFailure == true
                guard isAwaited || !isLost, try connection.runsAgain() else { throw error }
            }
        }
    }

    /// Closes the connections. A store does so before it closes its own, which as the last one removes the log; one that
    /// only reads cannot.
    package func close() { state.withLock { $0.idle.removeAll() } }

    /// - Returns: A connection that is open already.
    private func enter() throws(HandlerError) -> (any SQLConnection)? {
        let thread = ThreadID.current
        let place = state.wait(limit: nil) { state -> Place? in
            if state.threads.contains(thread) { return .nested }
            guard state.threads.count < HandlerStore.maximumReads else { return nil }
            state.threads.append(thread)
            return .free(state.idle.popLast())
        }
        // Without a limit it waits until there is one.
        guard case .free(let connection) = place else {
            throw HandlerError(
                .nestedStep,
                "a read was started inside a read; pass the outer snapshot on and read through that one")
        }
        return connection
    }

    /// The state of the pool for a new read.
    private enum Place {
        case nested
        case free((any SQLConnection)?)
    }

    private func leave(_ connection: (any SQLConnection)?) {
        let thread = ThreadID.current
        state.withLock { state in
            state.threads.removeAll { $0 == thread }
            if let connection { state.idle.append(connection) }
        }
    }
}
