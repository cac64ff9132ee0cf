import Handlers
import TestThreads
import XMPPTransport

@testable import XMPPAccount

extension StoredLogin {
    /// Opens streams with the current epoch, without taking the account over.
    init(_ account: Account) throws {
        let table = account.ownerships
        let epoch = try account.store.step { step in try table.epoch(in: step) }
        self.init(account: account, owner: OwnerStep(store: account.store, table: table, epoch: epoch))
    }
}

extension StreamOpener {
    /// Opens a stream on a loop of its own.
    func opened() async throws -> OpenedStream {
        let opening = try await onThread { try EventLoop.run { try await open(on: $0) } }
        guard case .opened(let stream) = opening else {
            throw AccountError(.sessionPostponed, "the program wants to wait")
        }
        return stream
    }
}
