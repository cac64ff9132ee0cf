import Handlers
import Synchronization
import XMPPTransport

/// Owners on several machines. They agree by rows alone: who took an account over last owns it for as long as its store lives, of
/// which the stores that share the database keep account themselves.
///
/// A worker on another machine is not asked to hand over.
struct OwnerRows: OwnerPlaces {
    func open(account: Int64, _ store: HandlerStore) throws -> any OwnerPlace {
        Place(account, store, try Self.owners(store))
    }

    // The store itself looks whether a server lacks commits.
    func sent(account: Int64, _ store: HandlerStore) -> SentProgress? { nil }

    func isLocked(account: Int64, _ store: HandlerStore) -> Bool {
        guard let owners = try? Self.owners(store) else { return false }
        return owners.locked.withLock { $0.contains(account) }
            || Self.isOwnedElsewhere(account, store)
    }

    private static func owners(_ store: HandlerStore) throws -> Owners {
        try store.shared { Owners(OwnerAnswers(try store.system.driver.makeSharedSignal())) }
    }

    /// Whether another store that lives has taken the account over last.
    private static func isOwnedElsewhere(_ account: Int64, _ store: HandlerStore) -> Bool {
        // Without the database nobody can take anything over.
        guard let slot = try? slot(of: account, store) else { return true }
        return slot.map { $0 != store.slotNumber && store.isAlive(slot: $0) } ?? false
    }

    private static func slot(of account: Int64, _ store: HandlerStore) throws -> Int?? {
        try store.peek { .some(try OwnershipTable(account: account).slot(in: $0)) }
    }

    /// What the accounts of a store share.
    private final class Owners: Sendable {
        /// The accounts that this process owns, or is about to take over.
        let locked = Mutex<Set<Int64>>([])
        let answers: OwnerAnswers

        init(_ answers: OwnerAnswers) { self.answers = answers }
    }

    private final class Place: OwnerPlace {
        private let account: Int64
        private let store: HandlerStore
        private let owners: Owners

        let narrowedFile: String? = nil
        let mayLackCommits = true

        init(_ account: Int64, _ store: HandlerStore, _ owners: Owners) {
            (self.account, self.store, self.owners) = (account, store, owners)
        }

        deinit {
            stopAnswering()
            unlock()
        }

        private(set) var holdsLock = false

        func tryToLock() -> Bool {
            if holdsLock { return true }
            guard owners.locked.withLock({ $0.insert(account).inserted }) else { return false }
            holdsLock = true
            if isOwnedElsewhere(account, store) { unlock() }
            return holdsLock
        }

        func unlock() {
            if holdsLock { owners.locked.withLock { _ = $0.remove(account) } }
            holdsLock = false
        }

        var sent: SentProgress? { nil }
        func record(_ sent: SentProgress) {}

        func ask(
            _ question: OwnerQuestion, until deadline: Deadline, on loop: EventLoop
        ) async -> OwnerAnswer? {
            while owners.locked.withLock({ $0.contains(account) }), !holdsLock {
                switch owners.answers.reply(question, account) {
                case .answer(let answer): return answer
                case .notOwned: return nil
                case .later: break
                }
                if loop.isPassed(deadline) { return nil }
                await loop.sleep(.milliseconds(1))
            }
            // With the lock it has just looked.
            return !holdsLock && OwnerRows.isOwnedElsewhere(account, store) ? .keeping : nil
        }

        func listen() throws { owners.answers.expect(account, of: self) }

        func answer(_ decide: @escaping @Sendable (OwnerQuestion) -> OwnerAnswer) {
            owners.answers.answer(account, of: self, decide)
        }

        func stopAnswering() { owners.answers.stop(account, of: self) }
    }
}
