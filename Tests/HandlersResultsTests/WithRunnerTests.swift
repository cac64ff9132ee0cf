import Handlers
import HandlersTestKit
import TestThreads
import Testing

private struct Answer: AsyncHandler {
    static let id = "runner.answer"
    func run(_ call: AsyncCall<TimerFired>) async throws { try call.end(result: 42) }
}

@Suite(.ownThread) struct WithRunnerTests {
    @Test("H40 withRunner runs what is due, returns what its closure returns, and closes the runner")
    func result() async throws {
        try await withTestStore(registry: HandlerRegistry([Answer.self]), schemas: []) { test in
            let store = test.store
            let (runner, answer) = try #require(
                try await withRunner(store) { runner in
                    let id = try store.step { try $0.schedule(Answer().durable, after: .zero) }
                    return (runner, try await store.value(of: id, as: Int.self))
                })
            #expect(answer == 42)
            #expect(throws: HandlerError.self) { try runner.start() }
        }
    }

    @Test("H40 withRunner closes the runner when its closure throws, and a canceled one stops waiting")
    func canceled() async throws {
        try await withTestStore(registry: HandlerRegistry([Answer.self]), schemas: []) { test in
            let store = test.store
            let task = Task { try await withRunner(store) { try await $0.untilCanceled() } }
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
        }
    }
}
