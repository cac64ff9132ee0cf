import Handlers
import Platform
import Synchronization
import XMPPTransport

/// What the accounts of a store share that this process owns, or wants to own: the file of the owners, and the socket on which
/// other processes ask.
final class StoreOwners: Sendable {
    let file: OwnerFile
    let answers: OwnerAnswers

    private struct State {
        /// Accounts whose lock this store holds. The system would give a store the same lock twice.
        var locked: Set<Int64> = []
        /// The loop that answers; nil until the first account is owned.
        var loop: (any RunningLoop)?
    }

    private let store: HandlerStore
    private let state = Mutex(State())

    /// - Throws: Like ``OwnerFile/init(database:)``; ``/Handlers/HandlerError`` `resourcesExhausted`.
    init(_ store: HandlerStore) throws {
        self.store = store
        file = try OwnerFile(database: store.filePath)
        answers = OwnerAnswers(try store.system.driver.makeSharedSignal())
    }

    deinit { answers.end() }

    // MARK: Locks

    func tryLock(_ account: Int64) -> Bool {
        state.withLock { state in
            guard !state.locked.contains(account), file.tryLock(account) else { return false }
            state.locked.insert(account)
            return true
        }
    }

    func unlock(_ account: Int64) {
        state.withLock { state in
            file.unlock(account)
            state.locked.remove(account)
        }
    }

    // MARK: Questions

    private func path(ofSlot slot: Int) -> String {
        OwnerSocket.path(ofSlot: slot, database: store.filePath)
    }

    /// Asks the store that took an account over last.
    func ask(
        _ question: OwnerQuestion, _ account: Int64, until deadline: Deadline, on loop: EventLoop
    ) async -> OwnerAnswer? {
        guard let slot = try? store.read({ try OwnershipTable(account: account).slot(in: $0) }) else {
            return nil
        }
        return await OwnerSocket.ask(
            question, account: account, path: path(ofSlot: slot), beside: store.filePath, until: deadline,
            on: loop)
    }

    /// Listens from now on, if it does not yet.
    func listen() throws {
        try state.withLock { state in
            guard state.loop == nil else { return }
            let listener = try OwnerSocket.listen(
                path: path(ofSlot: store.slotNumber), beside: store.filePath)
            state.loop = try store.system.driver.startShared { [answers] in answers.makeLoop(listener) }
        }
    }
}
