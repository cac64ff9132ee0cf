/// The open transaction of a ``Step`` and of every ``Call`` in it.
///
/// It is the connection with its clock, its savepoints and what follows the commit. Work on rows is in each ``TransactionTable``.
package final class Transaction: TransactionTable {
    var transaction: Transaction { self }
    let connection: Connection
    let registry: HandlerRegistry
    let role: HandlerStore.Role
    /// This store's slot among the processes that have it open.
    let slot: any StorePresence
    let log: HandlerLog?
    /// The time of the wall clock.
    let now: Timestamp
    /// The time of the monotonic clock, in whole milliseconds.
    let monotonic: Duration
    /// The clocks themselves.
    private let time: TimeSource
    var afterCommit: [() -> Void] = []
    struct KeptKey: Hashable {
        let type: ObjectIdentifier
        let account: Int64
    }

    /// The objects that modules keep until the end of the step.
    var kept: [KeptKey: AnyObject] = [:]
    /// The rows that were written and that a runner may have to call.
    var newDue = NewDue()
    /// Set when an event was posted.
    var hasNewEvents = false
    /// What the handler that runs has returned, as JSON.
    var result: [UInt8]?
    /// The handlers that ended in this step and for whose endings somebody waits.
    var awaited: [AnyHandlerID] = []
    /// The calls that failed for good in this step.
    var failures: [HandlerFailure] = []
    /// What happened to handlers in this step.
    var happenings: [Happening] = []
    /// The handlers that run now, each in the call of the one before.
    private(set) var callStack: [StoredHandler] = []
    /// The innermost of them.
    var running: StoredHandler? { callStack.last }
    /// The first handler that the call of a standing handler has bound: the root of the chain that is that call.
    private var firstInCall: AnyHandlerID?
    /// To which chain with a limit new handlers belong.
    private(set) var chainRule = ChainRule.inherited
    /// What features keep in memory until the end of the step.
    var features = HandlerFeatures()
    /// Whether no handler may be called for what ends now.
    var runsNothing = false
    /// The record in the slot meanwhile.
    var runningCall: RunningCall?
    /// The error of a nested handler; the part of the step that ran it cannot succeed any more.
    var nestedFailure: (any Error)? { nested?.error }
    /// The same, with how that handler wants to be tried again.
    private var nested: (error: any Error, retry: RetryPolicy?)?
    /// Retry policy of the nested handler whose error rolled back the last savepoint; nil if no nested handler failed.
    private(set) var failedRetry: RetryPolicy?
    /// The number of nested running handlers.
    private var depth = 0
    /// Far above what is meant, far below what a thread's stack holds.
    private static let maximumDepth = 32

    init(
        connection: Connection, registry: HandlerRegistry, role: HandlerStore.Role, slot: any StorePresence,
        log: HandlerLog?, time: TimeSource
    ) {
        self.connection = connection
        self.registry = registry
        self.role = role
        self.slot = slot
        self.log = log
        self.time = time
        now = time.wall()
        monotonic = time.wholeMonotonic()
    }

    package enum Kind: Int64, CaseIterable, StoredState {
        case once = 0
        case standing = 1
    }

    package enum State: Int64, CaseIterable, StoredState {
        case pending = 0
        case parked = 1
        case quarantined = 2
        case leased = 3

        /// The rows in this state. The index of those that are not pending is found by its own condition only.
        package var condition: String {
            self == .pending ? "state = \(sql)" : "state <> \(Self.pending.sql) AND state = \(sql)"
        }
    }

    /// The time of the monotonic clock at this moment.
    var monotonicNow: Duration { time.wholeMonotonic() }

    // MARK: Chains of handlers

    /// The root of the chain to which a handler belongs that is bound now; nil for one that starts a chain.
    ///
    /// A standing handler is called again and again: were its row the root, all that a bot ever does would be one chain.
    var root: AnyHandlerID? {
        guard let running else { return nil }
        return running.isStanding ? firstInCall : running.root
    }

    /// Lets a handler that was bound start the chain of the call in which it was.
    func startChain(with id: AnyHandlerID) {
        if firstInCall == nil, running?.isStanding ?? false { firstInCall = id }
    }

    /// Runs `body` as the call of a handler, which is the innermost one meanwhile.
    func calling<R>(_ stored: StoredHandler, _ body: () throws -> R) rethrows -> R {
        let outer = firstInCall
        callStack.append(stored)
        firstInCall = nil
        defer {
            callStack.removeLast()
            firstInCall = outer
        }
        return try body()
    }

    /// The chain with a limit to which a new handler belongs.
    enum ChainRule {
        /// That of the handler in whose call it is bound.
        case inherited
        /// None.
        case outsideOfChains
        /// One with its own limit.
        case limited(Int64)
    }

    /// Runs `body`, in which new handlers belong to another chain.
    func binding<R, E: Error>(_ rule: ChainRule, _ body: () throws(E) -> R) throws(E) -> R {
        let outer = chainRule
        chainRule = rule
        defer { chainRule = outer }
        return try body()
    }

    /// Returns whether a handler that is bound now may belong to a chain with a limit. Standing handlers never do.
    func mayBindInChain(_ kind: Kind) -> Bool {
        guard kind == .once else { return false }
        return switch chainRule {
        case .inherited: running?.relations.contains(.inChain) ?? false
        case .outsideOfChains: false
        case .limited: true
        }
    }

    // MARK: Undoing a part

    /// Runs `body` in a savepoint and rolls its writes back when it throws. Savepoints can be nested.
    func undoingOnError(_ body: () throws -> Void) throws {
        try undoing {
            try body()
            return true
        }
    }

    /// Runs `body` in a savepoint, whose writes are undone when it throws or returns false.
    ///
    /// - Returns: What `body` returns.
    @discardableResult
    func undoing(unless body: () throws -> Bool) throws -> Bool {
        try connection.savepoint()
        let outer = nested
        nested = nil
        defer { nested = outer }
        let (actions, failed, ended) = (afterCommit.count, failures.count, awaited.count)
        let happened = happenings.count
        let (kept, first) = (features.mark, firstInCall)
        func undo() throws {
            try connection.undo()
            features.undo(to: kept)
            firstInCall = first
            afterCommit.removeSubrange(actions...)
            failures.removeSubrange(failed...)
            awaited.removeSubrange(ended...)
            happenings.removeSubrange(happened...)
            failedRetry = nested?.retry
        }
        do {
            let isStored = try body()
            if let nestedFailure { throw nestedFailure }
            if isStored { try connection.release() } else { try undo() }
            return isStored
        } catch {
            // Left open, the savepoint would be taken for that of the handler around it. Where the store failed there
            // is nothing to undo: the step cannot commit any more.
            if connection.isUsable { try undo() }
            // The inner handler's own error decides what becomes of the outer one, however that one worded it.
            throw nestedFailure ?? error
        }
    }

    /// Does what the rest of the step can do without: it is undone when it throws, unless the store failed.
    func ifStorable(_ body: () throws -> Void) throws {
        do {
            try undoingOnError(body)
        } catch {
            guard connection.isUsable else { throw error }
        }
    }

    /// ``undoingOnError(_:)`` for work that must not spoil the commit of what shares its step.
    func undoingCommand(_ body: () throws -> Void) throws {
        try undoingOnError { try checkingForeignKeys(body) }
    }

    /// Refuses changes of `body` that only the commit would find: that would undo the whole step, and the
    /// same event would fail again for ever.
    func checkingForeignKeys(_ body: () throws -> Void) throws {
        let unresolvedBefore = connection.hasUnresolvedForeignKeys
        try body()
        guard unresolvedBefore || !connection.hasUnresolvedForeignKeys else {
            throw HandlerError(
                .sql, "the handler left a row whose foreign key leads nowhere; write the other row too")
        }
    }

    // MARK: Handlers in handlers

    /// The time from which on a call is reported: everything else that needs the store waits for it.
    private static let longCall = Duration.milliseconds(5)

    /// Runs a handler, and reports it when it takes long.
    func timing(_ stored: StoredHandler, _ body: () throws -> Void) rethrows {
        guard log != nil else { return try body() }
        let start = time.monotonic()
        try body()
        let taken = time.monotonic() - start
        guard taken >= Self.longCall else { return }
        log(.info, .handlers) {
            "\(stored.name) took \(taken.milliseconds) ms in a step, for which all other steps of the store waited; make it an async handler if that happens often"
        }
    }

    /// Whether handlers run inside of others so deeply that a further one should wait for a runner.
    var isDeep: Bool { depth > Self.maximumDepth / 4 }

    /// Runs a handler, unless those that run now are too many already.
    func goingDeeper(_ body: () throws -> Void) throws {
        guard depth < Self.maximumDepth else {
            throw HandlerError(
                .nestedTooDeep,
                "handlers called each other \(Self.maximumDepth) deep; bind a new handler instead of calling on"
            )
        }
        depth += 1
        defer { depth -= 1 }
        try body()
    }

    /// Remembers that a nested handler failed, so that code that ignores the error cannot commit without it.
    func notingFailure(of handler: Name, _ body: () throws -> Void) throws {
        do {
            try body()
        } catch {
            nested = nested ?? (error, registry.definition(named: handler)?.retry)
            throw error
        }
    }
}
