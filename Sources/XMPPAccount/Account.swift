// XMPPAccount: one account's stream, and the one path that everything takes.
//
//     bytes ──TLS──▶ StreamParser ──▶ Element
//                                       │ one Step = one SQLite transaction (AccountLoop+Step)
//           0 fence                     the epoch of this process is still the account's         OwnerStep
//           1 count                     every stanza, whatever becomes of it                     InboundStep
//           2 unwrap and recognize      carbons, archives, duplicates, own messages
//           3 match                     an answer to its request
//           4 invoke                    the handler, modules, listeners
//           5 append                    stanzas they send to the outbox, new requests
//           6 expire                    requests whose time is over                              AccountLoop+Step
//           7 read the outbox           rows after the flush mark
//                                       │ COMMIT
//     bytes ◀──TLS── Serializer ◀───────┘ rows of 7; <a h/> from the committed count only

public import Handlers
import IQTracker
import Synchronization
import XMPPCore
import XMPPTransport

/// An XMPP account whose requests, messages and handlers survive the death of the process.
///
/// Nothing reaches the server before it is committed, and nothing is acknowledged to the server before it is
/// committed. A process may be killed at any instruction; the next one that connects resumes the session, and what
/// was answered in between calls the stored handlers there.
///
/// ```swift
/// let store = try HandlerStore(path: "app.db", registry: .discovered(), schemas: Account.schemas)
/// let account = try Account(configuration, store: store)
/// try await account.connect()
/// try await account.send(.iq(ping), then: Greeter.answered(name: "Juliet"))
/// await account.close()
/// ```
public final class Account: Sendable {
    /// The configuration that the account was made with.
    public let configuration: AccountConfiguration
    /// Store of the account.
    public let store: HandlerStore

    let tables: AccountTables
    let ownerships: OwnershipTable
    let ownerPlaces: any OwnerPlaces
    let ownPresence: OwnPresenceTable
    let logins: LoginTable
    let awaited = AwaitedReplies()
    private let moduleList: Mutex<ModuleList>
    let acknowledgementPolicy: Mutex<AcknowledgementPolicy>
    private let attention = Mutex(ClientState.active)
    /// What the accounts of a host share; nil for an account of its own.
    let host: HostServices?
    /// Called when the account has given up its stream for good.
    let gaveUp: @Sendable (Account, AccountError) -> Void
    /// Calls the turns of the account's loop.
    private let driver: any LoopDriver
    let mailbox: Mailbox
    /// Whether this process owns the stream, so that others need no notice of its stanzas.
    let ownsStream = Atomic(false)
    /// Whether the stream is open.
    let hasStream = Atomic(false)
    /// Whether another process kept the stream at the last attempt to take over.
    let isHeldElsewhere = Atomic(false)
    /// The bare address that the server has assigned, once this process has met it.
    let assigned: Mutex<JID?>
    /// The loop that owns the stream, from the first command on.
    private let thread = Mutex<(any RunningLoop)?>(nil)
    /// Calls the handlers of this account, and those of no account, whose time has come: timers, retries, async
    /// handlers. It runs from `runner.start()` or the first ``connect(retrying:)`` on; a program that only looks into the
    /// account calls neither, and no handler runs. A short-lived worker calls `runner.drain(for:)` after ``caughtUp()``.
    public let runner: HandlerRunner
    let hub: EventHub
    /// Nil for an account of its own.
    private let news: OutboxNews?

    /// Makes an account; it does not connect yet.
    ///
    /// - Parameters:
    ///   - configuration: Address, password and where to connect.
    ///   - store: A store opened with `Account.schemas`.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails; ``AccountError`` `invalidConfiguration`.
    public convenience init(_ configuration: AccountConfiguration, store: HandlerStore) throws {
        try self.init(configuration, store: store, on: nil) { _, _ in }
    }

    /// - Parameters:
    ///   - host: What the accounts of its host share; nil for an account of its own.
    ///   - gaveUp: Called on the account's thread when the account has given up its stream for good.
    init(
        _ configuration: AccountConfiguration, store: HandlerStore, on host: HostServices?,
        gaveUp: @escaping @Sendable (Account, AccountError) -> Void
    ) throws {
        try configuration.validate()
        OpenSSL.start
        if let hash = Crypto.missing {
            throw AccountError(
                .invalidConfiguration,
                "this OpenSSL offers no \(hash.rawValue); activate its default provider in openssl.cnf, or unset OPENSSL_CONF"
            )
        }
        let modules = try ModuleList(configuration.modules)
        try modules.checkTables(in: store)
        for file in store.narrowedFiles { configuration.log(.warning, .session, PrivateFile.narrowed(file)) }
        moduleList = Mutex(modules)
        self.configuration = configuration
        self.store = store
        hub = EventHub(configuration)
        (self.host, self.gaveUp) = (host, gaveUp)
        news = host == nil ? nil : store.shared { OutboxNews(store) }
        driver = host?.driver ?? store.system.driver
        mailbox = try Mailbox(driver)
        let places = configuration.ownerPlaces ?? (store.filePath.isEmpty ? OwnerRows() : OwnerFiles())
        ownerPlaces = places
        let (id, address) =
            try Self.known(configuration, modules, places, store)
            ?? store.step { step in
                try Self.checkTables(in: step)
                let id = try Self.findOrMake(configuration.jid.description, in: step)
                try OwnershipTable(account: id).giveUpCopied(
                    sent: places.sent(account: id, store), isLocked: { places.isLocked(account: id, store) },
                    in: step)
                try modules.record(account: id, retired: configuration.retiredModules, in: step)
                return (id, try SessionTable(account: id).fullJID(in: step)?.bare)
            }
        assigned = Mutex(address)
        tables = AccountTables(
            store, account: id, configuration.jid, requestTimeout: configuration.connectedRequestTimeout,
            time: configuration.time)
        ownerships = OwnershipTable(account: id)
        ownPresence = OwnPresenceTable(account: id)
        logins = LoginTable(account: id)
        acknowledgementPolicy = Mutex(configuration.acknowledgements)
        var running = configuration.loggedRunner
        running.driver = host?.runners
        runner = try HandlerRunner(store, running)
        let mailbox = mailbox
        configuration.time.onTurn? { [weak mailbox] in mailbox?.signal.raise() }
        if let news {
            news.add(id, mailbox)
        } else {
            store.addNeighborListener(mailbox) { [weak mailbox] in mailbox?.recordRowsOfOthers() }
        }
        try runner.attach(self, isConnected: false)
    }

    /// The modules of this moment. They change inside steps of the account's thread alone.
    var modules: ModuleList { moduleList.withLock { $0 } }

    /// The account's row in the store, for tables of other modules.
    package var id: Int64 { tables.id }
    var requests: PendingIQTable { tables.requests }
    var outbox: Outbox { tables.outbox }
    var sessions: SessionTable { tables.sessions }
    package var listeners: ListenerTable { tables.listeners }
    var inboundRequests: InboundRequestTable { tables.inboundRequests }
    var connectedClock: ConnectedClock { tables.connectedClock }
    /// The marks of messages that were handled.
    var seen: SeenTable { tables.seen(of: self) }

    func changeModules(_ change: (ModuleList) -> ModuleList) { moduleList.withLock { $0 = change($0) } }

    // MARK: The stream

    /// Calls handlers whose time has come, connected or not, until ``close()``.
    package func start() throws { try runner.start() }

    /// Takes the stream over, connects, and resumes the session or binds a new one. Starts the handlers, too: `runner.start()`.
    ///
    /// Once connected the account reconnects by itself until ``suspend()`` or ``close()``; calling this meanwhile
    /// tries at once. Call ``listen(as:_:ordered:)`` before: a message that arrives without a listener is acknowledged and lost.
    ///
    /// ```swift
    /// try await account.connect(retrying: true)  // a bot, which may start before its network is up
    /// ```
    ///
    /// - Parameter retrying: Whether to try again, too, while there was no stream yet: by the same rules, with waits of 1/4
    ///   second to a minute, and also while another process has the account. Each failure comes as
    ///   ``AccountEvent/retrying(after:reason:)``. A program that stays wants that; a worker, or a command for people, wants
    ///   to know at once.
    /// - Throws: ``AccountError``, ``/XMPPTransport/TransportError`` or ``/XMPPTransport/SASLError`` when the first attempt
    ///   fails; retrying, ``AccountError`` when trying again cannot help, such as `notAuthorized`, or when it was ended by ``suspend()`` or
    ///   ``close()``. ``/Handlers/HandlerError`` when the store fails. `CancellationError` when the task is canceled; the account
    ///   then still goes on until ``suspend()`` or ``close()``.
    public func connect(retrying: Bool = false) async throws {
        let told = store.notificationsByOthers
        // The handlers start while the stream is being opened.
        async let opened: Void = askUntilCanceled { .connect(retries: retrying, $0) }
        let started = Result { try start() }
        try await opened
        try started.get()
        // What others committed behind the first look and before they were listened to.
        if store.notificationsByOthers != told { mailbox.recordRowsOfOthers() }
    }

    /// Closes the connection and keeps the session.
    ///
    /// The session can be resumed, and another process may own the stream.
    ///
    /// - Throws: ``/Handlers/HandlerError`` when the store fails; the connection is closed all the same.
    public func suspend() async throws { try await ask { .suspend($0) } }

    /// Waits until everything that the server sent so far is committed. Costs a round trip of `<r/>`, `<a/>`.
    ///
    /// If the stream breaks meanwhile, it waits for the next one and catches up there.
    ///
    /// - Throws: ``AccountError`` when no stream is wanted, the account stops, or the server has no stream management;
    ///   `CancellationError` when the task is canceled.
    public func caughtUp() async throws { try await askUntilCanceled { .catchUp($0) } }

    /// Ends the session for good: what waits is invalidated with reason `logout` and the outbox is emptied.
    ///
    /// - Throws: ``AccountError`` `ownershipHeld` or `ownershipLost` when another process owns the stream, and
    ///   nothing is changed; ``/Handlers/HandlerError`` when the store fails.
    public func logOut() async throws { try await ask { .logOut($0) } }

    /// Suspends and ends the account's threads. The account cannot be used afterwards.
    public func close() async {
        runner.close()
        try? await ask { .close($0) }
        // Where no thread could be started for that, nothing else does it.
        hub.finish()
        // It has nothing left to do; a program may exit next.
        thread.withLock { $0.take() }?.join()
        awaited.endAll()
        if let news { news.remove(id) } else { store.removeNeighborListener(mailbox) }
        for module in modules.modules.reversed() { await module.hooks.stop?(self) }
    }

    /// Closes like ``close()`` once the running async handlers have ended.
    ///
    /// Until then the stream stays open for them. Handlers that are due, and async handlers for what arrives meanwhile, are
    /// left to the next process.
    ///
    /// ```swift
    /// let isClean = await account.close(finishing: .seconds(10))  // in a service that is asked to stop
    /// ```
    ///
    /// - Parameter time: How long to wait for them at most, 0 or more. Those that still run then are canceled, and another
    ///   process runs them again.
    /// - Returns: Whether all of them ended.
    @discardableResult
    public func close(finishing time: Duration) async -> Bool {
        let isClean = await runner.close(finishing: time)
        await close()
        return isClean
    }

    /// Runs what is due and waits for what runs; see ``/Handlers/HandlerRunner/drain(for:)``.
    package func drain(for time: Duration) async throws -> Bool { try await runner.drain(for: time) }

    /// Events of the stream from now on. Every listener has its own sequence.
    ///
    /// At most 10 000 events wait for a listener, of at most 2 MiB. Of more the oldest are dropped, and the sequence has
    /// ``AccountEvent/dropped(count:)`` at their place. The store has lost nothing then: read from it what the events repeat.
    public var events: AsyncStream<AccountEvent> { hub.listen(gap: { .dropped(count: $0) }, { $0 }) }

    /// Reports that the machine's network changed.
    ///
    /// A waiting account connects at once; a connected one finds out within ten seconds whether its connection still holds.
    ///
    /// Call it whenever the system reports a change; it does nothing while no stream is wanted.
    public func networkChanged() {
        // Nothing was connected without a thread.
        if thread.withLock({ $0 != nil }) { _ = mailbox.post(.networkChanged) }
    }

    /// Whether the user looks at the client. While inactive, a server with XEP-0352 delays stanzas that can wait.
    ///
    /// It belongs to this process alone, which sends it on every stream; other processes start as active.
    public var clientState: ClientState {
        get { attention.withLock { $0 } }
        set {
            attention.withLock { $0 = newValue }
            mailbox.signal.raise()
        }
    }

    /// Forgets what was learned about the server's login: the pinned mechanism, the iteration count, tokens.
    ///
    /// For a server whose operator confirms that it offers less than before; until then a weaker login is refused as a
    /// suspected downgrade.
    ///
    /// - Throws: ``AccountError`` `ownershipLost`, ``/Handlers/HandlerError`` when the store fails.
    public func forgetLogin() async throws { try await perform { step in try self.logins.forget(in: step) } }

    // MARK: Steps

    /// Runs `body` in the account's next step and returns once it is committed.
    ///
    /// ```swift
    /// try await account.perform { step in
    ///     try step.execute("INSERT INTO draft(text) VALUES (?)", text)
    ///     try account.send(Message(to: juliet, body: text), in: step)
    /// }
    /// ```
    ///
    /// - Parameter body: The work, on the account's thread; short and synchronous, because the stream waits for it.
    /// - Returns: What `body` returns.
    /// - Throws: What `body` throws (its writes are undone), ``AccountError`` `ownershipLost` or `closed`,
    ///   ``/Handlers/HandlerError`` when the store fails.
    @discardableResult
    public func perform<R: Sendable>(_ body: @escaping @Sendable (borrowing Step) throws -> R) async throws
        -> R
    {
        let box = ResultBox<R>()
        let run = try outbox.numbering(store) { step in box.value = try body(step) }
        try await ask { completion in .step(StepCommand(run: run, finish: completion)) }
        // Set by the loop before it completed without an error.
        return box.value!
    }

    /// Asks for what may take long. A canceled caller stops waiting; the account goes on with the work.
    private func askUntilCanceled(_ command: (@escaping Completion) -> Command) async throws {
        let waiter = CancelableWaiter()
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                guard waiter.wait(continuation) else { return }
                post(command { waiter.end($0) }) { waiter.end(.failure($0)) }
            }
        } onCancel: {
            waiter.end(.failure(CancellationError()))
        }
    }

    /// Asks for what is done at once.
    func ask(_ command: (@escaping Completion) -> Command) async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            post(command { continuation.resume(with: $0) }) { continuation.resume(throwing: $0) }
        }
    }

    /// Gives the account's thread a command, and starts the thread with the first one.
    ///
    /// - Parameter refuse: Called when it does not take the command.
    func post(_ command: Command, refuse: (any Error) -> Void) {
        do {
            try thread.withLock { thread in
                guard thread == nil, !mailbox.isClosed else { return }
                thread = try driver.start("account", blocksSignals: false) { [self] in
                    AccountLoop(self)
                }
            }
        } catch { return refuse(error) }
        if !mailbox.post(command) { refuse(AccountError(.closed, "the account was closed; make a new one")) }
    }
}

/// Client state: active or inactive (XEP-0352).
///
/// ```swift
/// account.clientState = .inactive  // the app went to the background
/// ```
public enum ClientState: String, Hashable, Sendable {
    /// The user looks at the app.
    case active
    /// The user does not look at the app: the server may delay less important stanzas.
    case inactive
}

/// Carries a step's result from the loop to the one who waits for it.
///
/// Unchecked: written by the loop before the continuation is resumed, read after it.
private final class ResultBox<R>: @unchecked Sendable {
    var value: R?
}
