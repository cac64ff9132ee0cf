/// A part of a step that several loops can share, and so its commit.
package final class GroupedStep: GroupedWork {
    /// The time after which a step ends, by the monotonic clock: other steps wait for it.
    private static let longestStep = Duration.milliseconds(20)

    private let store: HandlerStore
    private let body: (borrowing Step) throws -> Void
    /// The result once the step has ended; nil until then.
    package private(set) var result: Result<Void, any Error>?

    /// - Parameters:
    ///   - body: What to do in the step. What it writes is undone when it throws; the parts of others are not.
    package init(in store: HandlerStore, _ body: @escaping (borrowing Step) throws -> Void) {
        (self.store, self.body) = (store, body)
    }

    package func run() { result = Result { try store.step(body) } }

    package static func run(_ work: ArraySlice<any GroupedWork>) -> Int {
        let parts = work.compactMap { $0 as? GroupedStep }
        guard let first = parts.first, parts.count > 1 else {
            work.first?.run()
            return 1
        }
        var results: [Result<Void, any Error>] = []
        var isAttempting = false
        do {
            try first.store.step { step in
                // It may run a second time.
                results = []
                let end = first.store.time.monotonic() + longestStep
                for part in parts {
                    isAttempting = true
                    results.append(try part.run(in: step))
                    isAttempting = false
                    if first.store.time.monotonic() >= end { break }
                }
            }
        } catch {
            // Nothing of any of them is committed. Parts that were not reached are tried apart, unless no transaction could start.
            let attempted = results.count + (isAttempting ? 1 : 0)
            results = parts.prefix(attempted == 0 ? parts.count : attempted).map { _ in .failure(error) }
        }
        for (part, result) in zip(parts, results) { part.result = result }
        return results.count
    }

    /// - Throws: When the step cannot commit any more, as the store has failed.
    private func run(in step: borrowing Step) throws -> Result<Void, any Error> {
        do {
            try step.undoingOnError { try body(step) }
            return .success(())
        } catch {
            guard step.transaction.connection.isUsable else { throw error }
            return .failure(error)
        }
    }
}
