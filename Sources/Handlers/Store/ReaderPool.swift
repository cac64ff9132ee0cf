import Platform

/// The connections of a store that only read: opened when first needed, each lent to one read at a time.
///
/// `@unchecked Sendable`: a connection is used by the thread that took it out of `idle`, and by no other.
package final class ReaderPool: @unchecked Sendable {
    private let open: @Sendable (_ isAwaited: Bool) throws(HandlerError) -> any SQLConnection
    /// Whether reads wait for a database that is away.
    private let isAwaited: Bool
    private let state = Monitor(State())

    private struct State {
        var idle: [any SQLConnection] = []
        /// The threads that read now, and whether each has started a step meanwhile.
        var threads: [ThreadID: Bool] = [:]
        /// Whether no read may start.
        var isSuspended = false
    }

    /// Makes an empty pool.
    ///
    /// - Parameters:
    ///   - isAwaited: Whether reads wait for a database that is away, and run again where their connection was lost.
    ///   - open: Opens a connection that only reads, and waits for the database as `isAwaited` says.
    package init(
        isAwaited: Bool = true,
        _ open: @escaping @Sendable (_ isAwaited: Bool) throws(HandlerError) -> any SQLConnection
    ) {
        self.isAwaited = isAwaited
        self.open = open
    }

    /// Makes another pool on the same database, for reads that wait neither for those of the program nor for a database that is away.
    func another() -> ReaderPool { ReaderPool(isAwaited: false, open) }

    /// Notes that the calling thread starts a step. If it reads now, that read does not run again: the step would be done twice.
    func startsStep() { state.withLock { $0.threads[.current]? = true } }

    /// Lends the state that was committed last to `body`, once fewer than ``HandlerStore/maximumReads`` run.
    ///
    /// - Parameters:
    ///   - time: The clock for ``Snapshot/now``.
    ///   - isFixed: Whether `body` gets the state of this moment, and not that of its first statement.
    ///   - body: The work. It runs again where tables have changed since the connection was used last, or where that was lost.
    func read<R>(
        _ time: TimeSource, isFixed: Bool = true, _ body: (borrowing Snapshot) throws -> R
    ) throws -> R {
        let idle = try enter()
        var kept: (any SQLConnection)?
        defer { leave(kept) }
        let connection = try idle ?? open(isAwaited)
        do {
            let result = try repeating(connection) {
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

    private func repeating<R>(_ connection: any SQLConnection, _ read: () throws -> R) throws -> R {
        while true {
            do {
                return try read()
            } catch {
                let isLost = (error as? HandlerError)?.isStorageFailure == true
                guard isAwaited || !isLost, !hasStartedStep, try connection.runsAgain() else { throw error }
            }
        }
    }

    /// Whether the calling thread has started a step in its read.
    private var hasStartedStep: Bool { state.withLock { $0.threads[.current] == true } }

    /// Closes the connections. A store does so before it closes its own, which as the last one removes the log; one that
    /// only reads cannot.
    package func close() { state.withLock { $0.idle.removeAll() } }

    /// Whether the calling thread is inside a read.
    var isReading: Bool { state.withLock { $0.threads[.current] != nil } }

    /// Refuses reads from now on, waits for those that run, and closes the connections. Not inside a read, for which it would wait.
    func suspend() {
        state.withLock { $0.isSuspended = true }
        state.wait(limit: nil) { $0.threads.isEmpty ? () : nil }
        close()
    }

    /// Takes reads again.
    func resume() { state.withLock { $0.isSuspended = false } }

    /// - Returns: A connection that is open already.
    private func enter() throws(HandlerError) -> (any SQLConnection)? {
        let thread = ThreadID.current
        let place = state.wait(limit: nil) { state -> Place? in
            if state.threads[thread] != nil { return .nested }
            if state.isSuspended { return .suspended }
            guard state.threads.count < HandlerStore.maximumReads else { return nil }
            state.threads[thread] = false
            return .free(state.idle.popLast())
        }
        if case .suspended = place { throw HandlerError.storeSuspended }
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
        case suspended
        case free((any SQLConnection)?)
    }

    private func leave(_ connection: (any SQLConnection)?) {
        let thread = ThreadID.current
        state.withLock { state in
            state.threads[thread] = nil
            if let connection { state.idle.append(connection) }
        }
    }
}
