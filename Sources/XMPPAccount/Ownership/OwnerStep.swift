import Handlers

/// The only way to commit something that speaks for an account's stream.
///
/// It is refused as soon as another process has taken the account over. Since nothing is told, counted or sent before it is
/// committed, a process that was frozen meanwhile can do none of that.
struct OwnerStep: Sendable {
    let store: HandlerStore
    let table: OwnershipTable
    /// The epoch that this process raised when it took the account over.
    let epoch: Int64

    /// Runs `body` in a transaction, behind the fence.
    ///
    /// - Throws: ``AccountError`` `ownershipLost`, and `body` does not run; ``/Handlers/HandlerError`` when the store fails;
    ///   what `body` throws.
    func run<R>(_ body: (borrowing Step) throws -> R) throws -> R {
        try store.step { step in
            // 0. Fence.
            try table.check(epoch: epoch, in: step)
            return try body(step)
        }
    }

    /// Fails when another process has taken the account over.
    func check() throws { try run { _ in } }
}
