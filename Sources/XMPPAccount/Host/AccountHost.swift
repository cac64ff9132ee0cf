public import Handlers
import Platform
import Synchronization
public import XMPPCore

/// Runs any number of accounts on a few threads.
///
/// An account of its own costs a thread; the accounts of a host share as many threads as there are processors. Accounts that are
/// ready at the same time and share a store also share a commit.
///
/// ```swift
/// let host = try AccountHost()
/// for configuration in configurations {
///     let account = try host.add(configuration, store: store)
///     try await account.listen(as: "echo", Echo.received())
///     host.connect(account)
/// }
/// for await failure in host.failures { print("\(failure.account.configuration.jid): \(failure.error)") }
/// ```
///
/// Each account is used like any other: its requests, events and modules are the same. What one handler does in its step holds up
/// the other accounts of its store, so what takes long belongs into an async handler.
public final class AccountHost: Sendable {
    /// The limits of a host.
    public struct Configuration: Sendable {
        /// The number of threads that wait for connections, from 1, and also work if all accounts share a store; by default one for
        /// each processor.
        public var threads: Int = ThisProcess.processors
        /// With several stores, how many of them work at the same time, from 1; each costs up to two threads meanwhile. A handler that
        /// sleeps in its step holds up its own store, and others only while so many sleep.
        public var stores: Int = 16
        /// How long a step takes in what arrived for one account while others wait, from 1 millisecond.
        public var slice: Duration = .milliseconds(5)
        /// How many streams of one server are opened at the same time, from 1. After an outage the others wait, so that the server
        /// need not work for all of them at once. In all there are at most 16 times as many, and fewer where the process may open
        /// few files; so a server that is silent delays its own accounts and no others.
        public var openings: Int = 64

        /// The defaults of all limits.
        public init() {}
    }

    /// An account that has given up its stream for good, such as after a wrong password.
    public struct Failure: Sendable {
        /// The account; it stays in the host and can be connected again.
        public let account: Account
        /// The reason.
        public let error: any Error
    }

    /// The limits that the host was made with.
    public let configuration: Configuration
    /// Accounts that have given up, from now on. At most 10 000 wait for a reader; of more the oldest are dropped.
    public let failures: AsyncStream<Failure>

    let services: HostServices
    private let report: AsyncStream<Failure>.Continuation

    private struct State {
        var accounts: [JID: Account] = [:]
        /// The tasks that connect accounts, and whether that was asked again meanwhile.
        var connecting: [ObjectIdentifier: (task: Task<Void, Never>, isAskedAgain: Bool)] = [:]
        /// The addresses of accounts that are being made or removed.
        var reserved: Set<JID> = []
        /// The number of accounts of each store.
        var stores: [ObjectIdentifier: Int] = [:]
        /// Called first when an account was given up; they return whether they start it again where it belongs.
        var watchers: [ObjectIdentifier: @Sendable (Account, any Error) -> Bool] = [:]
        var isClosed = false
    }

    private let state = Mutex(State())

    /// Makes a host without accounts.
    ///
    /// - Parameter configuration: The limits.
    /// - Throws: ``AccountError`` `invalidConfiguration` when a limit is out of its range.
    public init(_ configuration: Configuration = Configuration()) throws {
        guard min(configuration.threads, configuration.stores, configuration.openings) >= 1,
            configuration.slice >= .milliseconds(1)
        else {
            throw AccountError(
                .invalidConfiguration,
                "a host needs at least 1 thread, 1 store and 1 opening at a time, and a slice of 1 millisecond"
            )
        }
        self.configuration = configuration
        services = HostServices(configuration)
        (failures, report) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(10_000))
    }

    // MARK: Accounts

    /// All accounts, in no order.
    public var accounts: [Account] { state.withLock { Array($0.accounts.values) } }

    /// Returns the account with an address; nil when there is none.
    public func account(_ jid: JID) -> Account? { state.withLock { $0.accounts[jid] } }

    /// Makes an account that runs here. It is not connected yet, so that listeners can be set before.
    ///
    /// - Parameters:
    ///   - configuration: Address, password and where to connect.
    ///   - store: A store opened with `Account.schemas`. Accounts of one store share commits.
    /// - Throws: Like ``Account/init(_:store:)``; also ``AccountError`` `invalidConfiguration` when the address is here already
    ///   and `closed` when the host was closed; ``/Handlers/HandlerError`` `resourcesExhausted` when this process may not
    ///   open enough files for one more account.
    @discardableResult
    public func add(_ configuration: AccountConfiguration, store: HandlerStore) throws -> Account {
        let jid = configuration.jid
        try reserve(jid, store)
        let result = Result {
            try Account(configuration, store: store, on: services) { [weak self] account, error in
                self?.gaveUp(account, error)
            }
        }
        let isClosed = state.withLock { state in
            state.reserved.remove(jid)
            if !state.isClosed { state.accounts[jid] = try? result.get() }
            if state.accounts[jid] == nil { leave(store, &state) }
            return state.isClosed
        }
        let account = try result.get()
        guard isClosed else { return account }
        Task { await account.close() }
        throw AccountError(.closed, "the host was closed; make a new one")
    }

    /// Counts an account of a store no longer.
    private func leave(_ store: HandlerStore, _ state: inout State) {
        let key = ObjectIdentifier(store)
        let left = (state.stores[key] ?? 1) - 1
        state.stores[key] = left > 0 ? left : nil
        services.separateStores(state.stores.count > 1)
    }

    /// Keeps a place for an account.
    private func reserve(_ jid: JID, _ store: HandlerStore) throws {
        try state.withLock { state in
            if state.isClosed { throw AccountError(.closed, "the host was closed; make a new one") }
            guard state.accounts[jid] == nil, !state.reserved.contains(jid) else {
                throw AccountError(
                    .invalidConfiguration, "the host has \(jid) already; remove that account first")
            }
            let key = ObjectIdentifier(store)
            let stores = state.stores.count + (state.stores[key] == nil ? 1 : 0)
            let accounts = state.accounts.count + state.reserved.count + 1
            services.gate.setTotal(try openings(beside: accounts, stores: stores))
            state.reserved.insert(jid)
            state.stores[key, default: 0] += 1
            services.separateStores(state.stores.count > 1)
        }
    }

    /// The number of descriptors of a store: those of SQLite, also for a reader, of its slot, of its watch of other processes and of
    /// its owners.
    static let storeDescriptors = 12
    /// The number that is left to the program: its own files and connections.
    static let otherDescriptors = 64

    /// The number of descriptors that opening a stream takes for a while, beside that of the connection: lookups and addresses.
    static let openingDescriptors = 4

    /// Returns how many streams may be opened at the same time: as many as there are descriptors for.
    ///
    /// - Throws: When this process may open too few files for that many connections, their stores, the threads, and the openings of
    ///   one server.
    private func openings(beside accounts: Int, stores: Int) throws(HandlerError) -> Int {
        let limit = ThisProcess.raiseFileLimit()
        let others =
            Self.otherDescriptors + Self.storeDescriptors * stores + 6 * (configuration.threads + 1)
            + Self.openingDescriptors * configuration.openings
        guard accounts <= limit - others else {
            throw HandlerError(
                .resourcesExhausted,
                "this process may open \(limit) files, too few for \(accounts) accounts, \(stores) databases and what belongs to them (\(accounts + others)); raise the limit (ulimit -n, LimitNOFILE=)"
            )
        }
        return configuration.openings + (limit - others - accounts) / Self.openingDescriptors
    }

    /// Connects an account in the background and keeps it connected; see ``Account/connect(retrying:)``.
    ///
    /// When it gives up, ``failures`` has the reason. Call it again to try again; calls during an attempt ask for one more. An account
    /// that is not in the host, or was removed, is left as it is.
    public func connect(_ account: Account) {
        let key = ObjectIdentifier(account)
        state.withLock { state in
            guard !state.isClosed, state.accounts[account.configuration.jid] === account else { return }
            guard state.connecting[key] == nil else {
                // The attempt may be over already, and its failure be what the caller answers.
                state.connecting[key]?.isAskedAgain = true
                return
            }
            let task = Task { [weak self] in
                repeat {
                    do {
                        try await account.connect(retrying: true)
                    } catch let error as HandlerError {
                        self?.gaveUp(account, error)
                    } catch {
                        // The account reports it by itself.
                    }
                } while self?.isAskedAgain(key) == true
            }
            state.connecting[key] = (task, false)
        }
    }

    /// Returns whether an account is to be connected once more; if not, its task is over.
    private func isAskedAgain(_ key: ObjectIdentifier) -> Bool {
        state.withLock { state in
            // Canceled, it is no longer the task of the account.
            if Task.isCancelled { return false }
            guard state.connecting[key]?.isAskedAgain == true else {
                state.connecting[key] = nil
                return false
            }
            state.connecting[key]?.isAskedAgain = false
            return true
        }
    }

    /// Reports that an account has given up its stream for good.
    private func gaveUp(_ account: Account, _ error: any Error) {
        let (isHere, watchers) = state.withLock {
            ($0.accounts[account.configuration.jid] === account, Array($0.watchers.values))
        }
        if watchers.contains(where: { $0(account, error) }) { return }
        if isHere { report.yield(Failure(account: account, error: error)) }
    }

    /// Calls `action` first when an account is given up; nil for no longer.
    func onGivenUp(of watcher: AnyObject, _ action: (@Sendable (Account, any Error) -> Bool)?) {
        state.withLock { $0.watchers[ObjectIdentifier(watcher)] = action }
    }

    /// Closes an account and takes it out of the host. To restart it, add it again.
    ///
    /// - Parameters:
    ///   - account: One of this host; of another one it is only closed.
    ///   - time: How long its async handlers may take to end, 0 or more; see ``Account/close(finishing:)``.
    public func remove(_ account: Account, finishing time: Duration = .zero) async {
        let jid = account.configuration.jid
        let isHere = state.withLock { state in
            // With the lock held: the task sees it before it looks for what else it is to do.
            state.connecting.removeValue(forKey: ObjectIdentifier(account))?.task.cancel()
            guard state.accounts[jid] === account else { return false }
            state.accounts[jid] = nil
            state.reserved.insert(jid)
            return true
        }
        await account.close(finishing: time)
        guard isHere else { return }
        // Only now: its address is free once its session can be resumed.
        state.withLock { state in
            state.reserved.remove(jid)
            leave(account.store, &state)
        }
    }

    /// Closes all accounts; their sessions can be resumed. The host cannot be used afterwards.
    ///
    /// - Parameter time: How long their async handlers may take to end, 0 or more; see ``Account/close(finishing:)``.
    public func close(finishing time: Duration = .zero) async {
        let accounts = state.withLock { state in
            state.isClosed = true
            return Array(state.accounts.values)
        }
        await withTaskGroup { group in
            for account in accounts { group.addTask { await self.remove(account, finishing: time) } }
        }
        report.finish()
    }
}

/// What the accounts of a host share.
struct HostServices: Sendable {
    /// Calls the turns of the accounts.
    let driver: SharedThreads
    /// Calls handlers whose time has come, for all stores.
    let runners: SharedThreads
    /// Call the turns of both while there are several stores: a handler that sleeps holds one thread of each.
    private let workers: [WorkThreads]
    /// Derives keys from passwords, which takes as long as a server wants.
    let derivations = KeyDerivations()
    /// Limits the streams that are opened at the same time.
    let gate: OpeningGate
    let contexts = TLSContexts()
    /// How long a step takes in what arrived for one account.
    let slice: Duration

    init(_ configuration: AccountHost.Configuration) {
        workers = ["stores", "store handlers"].map { WorkThreads(configuration.stores, $0) }
        driver = SharedThreads(configuration.threads, "accounts", blocksSignals: false, workers: workers[0])
        runners = SharedThreads(1, "handler runners", blocksSignals: false, workers: workers[1])
        gate = OpeningGate(configuration.openings)
        slice = configuration.slice
    }
    /// Lets no store wait for the turns of another.
    func separateStores(_ isOn: Bool) { for workers in workers { workers.isNeeded = isOn } }
}
