import Handlers
import Synchronization

/// Tells a host which of its accounts have stanzas from other processes.
///
/// Others notify of whatever they commit. With thousands of accounts one read then says whom it concerns, where a step of each
/// would find nothing.
final class OutboxNews: Sendable {
    private struct State {
        /// What each account does about rows up to one.
        var accounts: [Int64: @Sendable (Int64) -> Void] = [:]
        /// The newest row that was looked at.
        var newest: Int64 = 0
        /// The number of looks in a row that failed.
        var failures = 0
    }

    private let store: HandlerStore
    private let state = Mutex(State())
    private let announce: AsyncStream<Void>.Continuation

    init(_ store: HandlerStore) {
        self.store = store
        let (news, announce) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        self.announce = announce
        store.addNeighborListener(self) { [announce] in announce.yield() }
        // The caller of the listener must not wait for the database.
        Task { [weak self] in for await _ in news { await self?.look() } }
    }

    deinit {
        announce.finish()
        store.removeNeighborListener(self)
    }

    func add(_ account: Int64, _ mailbox: Mailbox) {
        state.withLock { state in
            state.accounts[account] = { [weak mailbox] in mailbox?.recordRowsOfOthers(upTo: $0) }
        }
    }

    func remove(_ account: Int64) { state.withLock { $0.accounts[account] = nil } }

    /// The number of rows that are read at a time.
    private static let limit = 1000

    /// The shortest time between two looks at a server, where other machines commit all the time.
    private static let interval = Duration.milliseconds(20)

    /// The time after which it looks again when the database is away.
    private static let pause = Duration.milliseconds(200)

    /// The number of failures after which each account looks for itself.
    private static let patience = 5

    private func look() async {
        do {
            while try lookOnce() == Self.limit {}
            state.withLock { $0.failures = 0 }
            if store.isOnServer { try? await Task.sleep(for: Self.interval) }
        } catch {
            let (failures, accounts) = state.withLock { state in
                state.failures += 1
                // A standby that is promoted may give numbers again that were seen here before their commits were on it.
                state.newest = 0
                return (state.failures, state.accounts)
            }
            // While the database is away, a step of each account would fail, too.
            if failures % Self.patience == 0 { for record in accounts.values { record(.max) } }
            try? await Task.sleep(for: Self.pause)
            announce.yield()
        }
    }

    /// - Returns: The number of rows that were read.
    private func lookOnce() throws -> Int {
        let newest = state.withLock { $0.newest }
        let found = try store.peek { snapshot in
            try snapshot.all(
                "SELECT account, seq FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?", newest, Self.limit
            ) { (account: $0.integer(0), seq: $0.integer(1)) }
        }
        let accounts = state.withLock { state in
            state.newest = found.last?.seq ?? newest
            return state.accounts
        }
        for (account, seq) in Dictionary(found.map { ($0.account, $0.seq) }, uniquingKeysWith: max) {
            accounts[account]?(seq)
        }
        return found.count
    }
}
