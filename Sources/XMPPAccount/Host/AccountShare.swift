public import Handlers
import Synchronization
public import XMPPCore

extension AccountHost {
    /// Shares accounts with the hosts of other machines that have the same store open: one of them runs each account, and another
    /// one goes on with its session when that one dies, is cut off, or is closed.
    ///
    /// ```swift
    /// let host = try AccountHost()
    /// let share = host.share([configuration], in: store) { account in
    ///     try await account.listen(as: "echo", Echo.received())
    /// } failed: { jid, error in print("\(jid?.description ?? "the store"): \(error)") }
    /// ```
    ///
    /// Who runs an account follows from its address and the running machines (rendezvous hashing), so a machine that comes or goes
    /// moves no more accounts than it takes or leaves. With a store in a file, this host runs all of them.
    ///
    /// - Parameters:
    ///   - configurations: All accounts, the same on each machine, each address once.
    ///   - store: A store opened with `Account.schemas`.
    ///   - prepare: Called with each account that this host takes, before it is connected: it sets listeners. `failed` is called
    ///     with what it throws.
    ///   - failed: Called with an account that could not be started, which is tried again within five seconds, and with failures of
    ///     the store, without an address.
    /// - Returns: The share, which ends with ``AccountShare/close(finishing:)``.
    public func share(
        _ configurations: [AccountConfiguration], in store: HandlerStore,
        prepare: @escaping @Sendable (Account) async throws -> Void,
        failed: @escaping @Sendable (JID?, any Error) -> Void
    ) -> AccountShare {
        let share = AccountShare(
            self, configurations, store, Callbacks(prepare: prepare, failed: failed))
        share.start()
        return share
    }

    /// What a share calls.
    struct Callbacks: Sendable {
        let prepare: @Sendable (Account) async throws -> Void
        let failed: @Sendable (JID?, any Error) -> Void
    }
}

/// Accounts that the hosts of several machines share; see ``AccountHost/share(_:in:prepare:failed:)``.
///
/// ```swift
/// let host = try AccountHost()
/// let share = host.share([configuration], in: store) { _ in } failed: { _, error in print(error) }
/// await share.close()  // others go on with the sessions
/// ```
public final class AccountShare: Sendable {
    /// The pause after a look, and the longest time between two.
    private static let (pause, longestPause) = (Duration.milliseconds(100), Duration.seconds(1))
    /// The time until an account is tried again that could not be taken; the shorter one where the database was away.
    private static let (retryPause, shortRetryPause) = (Duration.seconds(5), Duration.milliseconds(500))
    /// The longest time for which accounts of another host are kept while own ones have no stream.
    private static let keeping = Duration.seconds(10)
    /// The number of accounts that are taken or given back at the same time.
    private static let atOnce = 16

    private let host: AccountHost
    private let configurations: [AccountConfiguration]
    private let store: HandlerStore
    private let callbacks: AccountHost.Callbacks
    private let news: AsyncStream<Void>
    private let announce: AsyncStream<Void>.Continuation

    private struct State {
        var taken: [JID: Account] = [:]
        /// Accounts that others have taken over, or that have stopped because the database was away.
        var lost: Set<JID> = []
        /// Accounts that are to be given back next.
        var leaving: Set<JID> = []
        /// Give accounts back, each by itself: one that takes long holds up no other one.
        var givingBack: [JID: Task<Void, Never>] = [:]
        /// Until when accounts of another host are kept while own ones have no stream; nil while there are none of another.
        var keepsUntil: ContinuousClock.Instant?
        /// Accounts that were given back, until that is known to be stored.
        var givenBack: Set<JID> = []
        /// When accounts are tried again that could not be taken.
        var retryAt: [JID: ContinuousClock.Instant] = [:]
        /// Whether the others know of this share.
        var isCounted = false
        var tasks: [Task<Void, Never>] = []
    }

    private let state = Mutex(State())

    fileprivate init(
        _ host: AccountHost, _ configurations: [AccountConfiguration], _ store: HandlerStore,
        _ callbacks: AccountHost.Callbacks
    ) {
        (self.host, self.configurations, self.store, self.callbacks) = (
            host, configurations, store, callbacks
        )
        (news, announce) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// The accounts that this host runs at this moment.
    public var accounts: [Account] { state.withLock { Array($0.taken.values) } }

    fileprivate func start() {
        host.onGivenUp(of: self) { [weak self] in self?.gaveUp($0, $1) ?? false }
        store.addNeighborListener(self) { [announce] in announce.yield() }
        let looking = Task { [self] in
            do { try store.watchChanges() } catch { callbacks.failed(nil, error) }
            for await _ in news where !Task.isCancelled {
                do { try await look() } catch { callbacks.failed(nil, error) }
                try? await Task.sleep(for: Self.pause)
            }
        }
        let ticking = Task { [announce] in
            while !Task.isCancelled {
                announce.yield()
                try? await Task.sleep(for: Self.longestPause)
            }
        }
        state.withLock { $0.tasks = [looking, ticking] }
    }

    /// Gives all accounts back, so that other machines go on with their sessions.
    ///
    /// - Parameter time: How long their async handlers may take to end, 0 or more; see ``Account/close(finishing:)``.
    public func close(finishing time: Duration = .zero) async {
        let tasks = state.withLock { state in
            defer { state.tasks = [] }
            return state.tasks
        }
        for task in tasks { task.cancel() }
        announce.finish()
        for task in tasks { await task.value }
        state.withLock { $0.leaving = [] }
        for task in state.withLock({ Array($0.givingBack.values) }) { await task.value }
        store.removeNeighborListener(self)
        host.onGivenUp(of: self, nil)
        do { try store.share(false) } catch { callbacks.failed(nil, error) }
        await forEach(state.withLock { Array($0.taken.keys) }) { await self.giveBack($0, finishing: time) }
        // Otherwise the others would wait until the store is closed.
        do { try release(as: store.slotNumber) } catch { callbacks.failed(nil, error) }
    }

    // MARK: Who runs what

    /// The one of several nodes that runs an account.
    static func node(of jid: JID, among nodes: [Int]) -> Int? {
        // FNV-1a, so that each machine computes the same.
        let hash = jid.description.utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) {
            ($0 ^ UInt64($1)) &* 0x0100_0000_01b3
        }
        func score(_ node: Int) -> UInt64 {
            var numbers = SplitMix(seed: hash &+ UInt64(truncatingIfNeeded: node) &* 0x2545_f491_4f6c_dd1d)
            return numbers.next()
        }
        return nodes.max { (score($0), $0) < (score($1), $1) }
    }

    /// Takes what is this host's part and free, and gives back what is another's.
    private func look() async throws {
        if !state.withLock({ $0.isCounted }) {
            try store.share(true)
            state.withLock { $0.isCounted = true }
        }
        let nodes = try store.sharingSlots()
        let own = store.slotNumber
        guard nodes.contains(own) else {
            // Others have taken this one for dead: a step gives it another place.
            return try store.step { _ in }
        }
        try release(as: own)
        let (lost, taken) = state.withLock { state in
            defer { state.lost = [] }
            return (state.lost, Set(state.taken.keys))
        }
        var (wanted, unwanted): ([AccountConfiguration], Set<JID>) = ([], [])
        for configuration in configurations {
            let jid = configuration.jid
            if Self.node(of: jid, among: nodes) != own {
                if taken.contains(jid) { unwanted.insert(jid) }
            } else if !taken.contains(jid), !isPaused(jid) {
                wanted.append(configuration)
            }
        }
        giveBackBesides(lost.intersection(taken).union(keeps(unwanted) ? [] : unwanted))
        try hastenTakeOvers()
        if wanted.isEmpty { return }
        let owners = try owners(of: wanted.map(\.jid))
        // An owner that lives gives it back as soon as it has seen the same nodes.
        let free = wanted.filter { configuration in
            owners[configuration.jid].map { $0 == own || !nodes.contains($0) } ?? true
        }
        await forEach(free) { await self.take($0) }
    }

    /// Whether this host keeps accounts of another one for now: they have streams, and those of a machine that has died come first.
    private func keeps(_ unwanted: Set<JID>) -> Bool {
        state.withLock { state in
            if unwanted.isEmpty {
                state.keepsUntil = nil
                return false
            }
            let until = state.keepsUntil ?? .now + Self.keeping
            state.keepsUntil = until
            return .now < until
                && state.taken.contains { jid, account in
                    !unwanted.contains(jid) && !account.hasStream.load(ordering: .relaxed)
                }
        }
    }

    /// Has accounts try again at once that another machine kept and keeps no longer; by themselves they wait longer each time.
    private func hastenTakeOvers() throws {
        let held = state.withLock { state in
            state.taken.filter { $0.value.isHeldElsewhere.load(ordering: .relaxed) }
        }
        if held.isEmpty { return }
        let owners = try owners(of: Array(held.keys))
        var lives: [Int: Bool] = [:]
        for (jid, account) in held {
            if let owner = owners[jid], owner != store.slotNumber {
                let isAlive = lives[owner] ?? store.isAlive(slot: owner)
                lives[owner] = isAlive
                if isAlive { continue }
            }
            account.isHeldElsewhere.store(false, ordering: .relaxed)
            account.networkChanged()
        }
    }

    private func isPaused(_ jid: JID) -> Bool {
        state.withLock { $0.retryAt[jid].map { ContinuousClock.now < $0 } ?? false }
    }

    /// The slots of the accounts' owners.
    private func owners(of jids: [JID]) throws -> [JID: Int] {
        try store.peek { snapshot in
            var owners: [JID: Int] = [:]
            // Eight at a time, as each statement takes a round trip; the last eight may name an address more than once.
            for start in stride(from: 0, to: jids.count, by: 8) {
                let eight = (start..<start + 8).map { jids[min($0, jids.count - 1)] }
                let texts = eight.map(\.description)
                let found = try snapshot.all(
                    """
                    SELECT account.jid, ownership.slot FROM account JOIN ownership ON ownership.account = account.id
                    WHERE account.jid IN (?, ?, ?, ?, ?, ?, ?, ?)
                    """, texts[0], texts[1], texts[2], texts[3], texts[4], texts[5], texts[6], texts[7]
                ) { (jid: $0.text(0), slot: $0.optionalInteger(1)) }
                for owner in found {
                    guard let index = texts.firstIndex(of: owner.jid) else { continue }
                    owners[eight[index]] = owner.slot.map(Int.init)
                }
            }
            return owners
        }
    }

    /// Gives back in the database what an account could not give back itself, because the database was away.
    private func release(as own: Int) throws {
        let givenBack = Array(state.withLock { $0.givenBack })
        let owners = try owners(of: givenBack)
        for jid in givenBack {
            if state.withLock({ $0.taken[jid] == nil }), owners[jid] == own {
                try store.step { step in
                    try step.write(
                        """
                        UPDATE ownership SET owner = NULL, slot = NULL
                        WHERE slot = ? AND account = (SELECT id FROM account WHERE jid = ?)
                        """, own, jid.description)
                }
            }
            state.withLock { _ = $0.givenBack.remove(jid) }
        }
    }

    private func take(_ configuration: AccountConfiguration) async {
        let jid = configuration.jid
        do {
            let account = try host.add(configuration, store: store)
            state.withLock { $0.taken[jid] = account }
            do {
                try await callbacks.prepare(account)
            } catch {
                await giveBack(jid)
                throw error
            }
            host.connect(account)
            state.withLock { $0.retryAt[jid] = nil }
        } catch {
            let isAway = (error as? HandlerError)?.code == .databaseUnavailable
            state.withLock { $0.retryAt[jid] = .now + (isAway ? Self.shortRetryPause : Self.retryPause) }
            callbacks.failed(jid, error)
        }
    }

    /// Gives accounts back while others are taken: those of a machine that has died have no stream meanwhile.
    private func giveBackBesides(_ jids: Set<JID>) {
        state.withLock { state in
            state.leaving.formUnion(jids.subtracting(state.givingBack.keys))
            giveNextBack(&state)
        }
    }

    private func giveNextBack(_ state: inout State) {
        while state.givingBack.count < Self.atOnce, let jid = state.leaving.popFirst() {
            state.givingBack[jid] = Task { [self] in
                await giveBack(jid)
                self.state.withLock { state in
                    state.givingBack[jid] = nil
                    giveNextBack(&state)
                }
                announce.yield()
            }
        }
    }

    private func giveBack(_ jid: JID, finishing time: Duration = .zero) async {
        guard let account = state.withLock({ $0.taken[jid] }) else { return }
        await host.remove(account, finishing: time)
        state.withLock { state in
            state.taken[jid] = nil
            state.givenBack.insert(jid)
        }
    }

    /// - Returns: Whether this share looks after the account, which another machine runs now, or which is started again once the
    ///   database is back.
    private func gaveUp(_ account: Account, _ error: any Error) -> Bool {
        let isLost = (error as? AccountError)?.code == .ownershipLost
        guard isLost || (error as? HandlerError)?.isStorageFailure == true else { return false }
        let jid = account.configuration.jid
        let isOwn = state.withLock { state in
            guard state.taken[jid] === account else { return false }
            state.lost.insert(jid)
            return true
        }
        announce.yield()
        return isOwn
    }

    private func forEach<T: Sendable>(_ elements: [T], _ body: @escaping @Sendable (T) async -> Void) async {
        await withTaskGroup(of: Void.self) { group in
            for (index, element) in elements.enumerated() {
                if index >= Self.atOnce { await group.next() }
                group.addTask { await body(element) }
            }
        }
    }
}
