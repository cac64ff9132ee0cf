import Handlers

@testable import XMPPAccount

extension StoredLogin {
    /// Opens streams with the current epoch, without taking the account over.
    init(_ account: Account) throws {
        let table = account.ownerships
        let epoch = try account.store.step { step in try table.epoch(in: step) }
        self.init(account: account, owner: OwnerStep(store: account.store, table: table, epoch: epoch))
    }
}
