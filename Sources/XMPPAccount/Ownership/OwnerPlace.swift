package import Handlers
package import XMPPTransport

/// The means by which processes agree on the owner of one account: a lock, a record of what was sent to the server, and questions.
///
/// None of them decides who may write: that is the epoch in ``OwnershipTable``.
package protocol OwnerPlace: AnyObject {
    /// A file that others had access to until it was opened.
    var narrowedFile: String? { get }

    /// Whether commits may have been lost since the account was opened. A file that was replaced is refused instead.
    var mayLackCommits: Bool { get }

    /// Whether this process holds the lock. The lock of a process that dies is free at once.
    var holdsLock: Bool { get }
    /// Takes the lock if it is free.
    func tryToLock() -> Bool
    func unlock()

    /// The last record of an owner.
    var sent: SentProgress? { get }
    /// Records what is sent to the server. The record survives the process; nothing is lost without it.
    func record(_ sent: SentProgress)

    /// Asks the owner.
    ///
    /// - Returns: Nil if the owner is silent until the deadline, or no process listens.
    func ask(_ question: OwnerQuestion, until deadline: Deadline, on loop: EventLoop) async -> OwnerAnswer?
    /// Receives questions from now on, in the place of the owner before; they wait for ``answer(_:_:)``.
    func listen() throws
    /// Answers questions until ``stopAnswering()``, also during a long step of the account.
    func answer(_ decide: @escaping @Sendable (OwnerQuestion) -> OwnerAnswer)
    func stopAnswering()
}

extension OwnerPlace {
    package var mayLackCommits: Bool { false }
}

/// The places of all accounts of a store.
package protocol OwnerPlaces: Sendable {
    /// Opens the place of an account for a process that wants to own it.
    func open(account: Int64, _ store: HandlerStore) throws -> any OwnerPlace
    /// Returns the last record of an owner.
    func sent(account: Int64, _ store: HandlerStore) -> SentProgress?
    /// Returns whether some process holds the lock.
    func isLocked(account: Int64, _ store: HandlerStore) -> Bool
}

/// Files beside the database: `<database>-owners`, which all stores share, and a socket of each store for questions.
package struct OwnerFiles: OwnerPlaces {
    package init() {}

    package func open(account: Int64, _ store: HandlerStore) throws -> any OwnerPlace {
        var isFirst = false
        let owners = try store.shared {
            isFirst = true
            return try StoreOwners(store)
        }
        try owners.file.check(account)
        return Place(
            account, owners, narrowedFile: isFirst && owners.file.wasNarrowed ? owners.file.path : nil)
    }

    package func sent(account: Int64, _ store: HandlerStore) -> SentProgress? {
        OwnerFile.sent(account, database: store.filePath)
    }

    package func isLocked(account: Int64, _ store: HandlerStore) -> Bool {
        OwnerFile.isLocked(account, database: store.filePath)
    }

    private final class Place: OwnerPlace {
        private let account: Int64
        private let owners: StoreOwners

        let narrowedFile: String?

        init(_ account: Int64, _ owners: StoreOwners, narrowedFile: String?) {
            (self.account, self.owners, self.narrowedFile) = (account, owners, narrowedFile)
        }

        deinit {
            stopAnswering()
            unlock()
        }

        private(set) var holdsLock = false

        func tryToLock() -> Bool {
            if !holdsLock { holdsLock = owners.tryLock(account) }
            return holdsLock
        }

        func unlock() {
            if holdsLock { owners.unlock(account) }
            holdsLock = false
        }

        var sent: SentProgress? { owners.file.sent(account) }
        func record(_ sent: SentProgress) { owners.file.record(sent, account) }

        func ask(
            _ question: OwnerQuestion, until deadline: Deadline, on loop: EventLoop
        ) async -> OwnerAnswer? {
            await owners.ask(question, account, until: deadline, on: loop)
        }

        func listen() throws {
            try owners.listen()
            owners.answers.expect(account, of: self)
        }

        func answer(_ decide: @escaping @Sendable (OwnerQuestion) -> OwnerAnswer) {
            owners.answers.answer(account, of: self, decide)
        }

        func stopAnswering() { owners.answers.stop(account, of: self) }
    }
}
