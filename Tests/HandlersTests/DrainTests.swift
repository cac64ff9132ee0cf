import Handlers
import TestSupport
import TestThreads
import Testing

/// Fails until its last attempt, and is tried again without a wait.
private struct Stubborn: AsyncHandler {
    static let id = "drain.stubborn"
    static let retry = RetryPolicy(attempts: 12, firstDelay: .zero)

    func run(_ call: AsyncCall<TimerFired>) async throws {
        guard call.attempt == Self.retry.attempts else { throw Failure() }
        try call.end { try $0.execute("INSERT INTO note(text) VALUES ('done')") }
    }
}

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct DrainTests {
    @Test("H14 a drain returns only when the last retry has ended, however fast one follows the other")
    func retries() async throws {
        for _ in 0..<5 {
            try await withFolder { folder in
                let store = try openStore(folder.file(), [Stubborn.self])
                let runner = try HandlerRunner(store)
                defer { runner.close() }
                let id = try store.bind(Stubborn().durable)
                try store.step {
                    try $0.end(id, .result, with: TimerFired(dueAt: Timestamp(milliseconds: 0)))
                }
                #expect(try await runner.drain(for: .seconds(100)))
                let left = try store.step { try $0.handlers() }
                #expect(left == [], "\(left)")
                #expect(try store.notes() == ["done"])
            }
        }
    }
}
