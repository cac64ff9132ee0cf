package import Handlers
package import XMPPTransport

/// The means by which processes agree on the owner of one account: a lock, a record of what was sent to the server, and questions.
///
/// None of them decides who may write: that is the epoch in ``OwnershipTable``.
package protocol OwnerPlace: AnyObject {
    /// A file that others had access to until it was opened.
    var narrowedFile: String? { get }

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
    func answer(_ driver: any LoopDriver, _ decide: @escaping @Sendable (OwnerQuestion) -> OwnerAnswer) throws
    func stopAnswering()
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

/// Files beside the database: `<database>-owner-<account>`, and a socket for questions.
package struct OwnerFiles: OwnerPlaces {
    package init() {}

    private func path(_ account: Int64, _ store: HandlerStore) -> String {
        "\(store.filePath)-owner-\(account)"
    }

    package func open(account: Int64, _ store: HandlerStore) throws -> any OwnerPlace {
        let path = path(account, store)
        return Place(
            lock: try OwnerLock(path: path, beside: store.filePath), path: path, database: store.filePath)
    }

    package func sent(account: Int64, _ store: HandlerStore) -> SentProgress? {
        SentProgress(file: path(account, store))
    }

    package func isLocked(account: Int64, _ store: HandlerStore) -> Bool {
        OwnerLock.isHeld(path(account, store))
    }

    private final class Place: OwnerPlace {
        private let lock: OwnerLock
        private let path: String
        private let database: String
        private var socket: OwnerSocket?
        private var answers: OwnerSocket.Answering?

        init(lock: OwnerLock, path: String, database: String) {
            (self.lock, self.path, self.database) = (lock, path, database)
        }

        var narrowedFile: String? { lock.wasNarrowed ? path : nil }
        var holdsLock: Bool { lock.isHeld }
        func tryToLock() -> Bool { lock.tryToAcquire() }
        func unlock() { lock.release() }
        var sent: SentProgress? { lock.sent }
        func record(_ sent: SentProgress) { lock.record(sent) }

        private var socketPath: String { path + ".sock" }

        func ask(
            _ question: OwnerQuestion, until deadline: Deadline, on loop: EventLoop
        ) async -> OwnerAnswer? {
            await OwnerSocket.ask(question, path: socketPath, beside: database, until: deadline, on: loop)
        }

        func listen() throws { socket = try OwnerSocket(path: socketPath, beside: database) }

        func answer(
            _ driver: any LoopDriver, _ decide: @escaping @Sendable (OwnerQuestion) -> OwnerAnswer
        ) throws {
            answers = try socket?.answer(driver, decide)
        }

        func stopAnswering() {
            answers?.stop()
            (answers, socket) = (nil, nil)
        }
    }
}
