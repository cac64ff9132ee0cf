import Synchronization
import XMPPAccount

/// Ends a command that otherwise runs until it is killed.
final class CommandEnd: Sendable {
    private let account: Account
    private let failure = Mutex<(any Error)?>(nil)

    init(of account: Account) { self.account = account }

    /// Closes the account, which ends the command. Only the first reason is kept.
    func end(with error: (any Error)? = nil) async {
        failure.withLock { $0 = $0 ?? error }
        await account.close()
    }

    /// Runs a task beside the command. If the task fails, the command ends.
    func watch(_ body: @escaping @Sendable () async throws -> Void) -> Task<Void, Never> {
        Task.detached {
            do {
                try await body()
            } catch is CancellationError {
            } catch {
                await self.end(with: error)
            }
        }
    }

    func check() throws {
        if let failure = failure.withLock({ $0 }) { throw failure }
    }
}
