import Handlers
import HandlersTestKit
import TestThreads
import Testing

private protocol Prices: Sendable {
    func price(of item: String) -> Int
}

private struct FixedPrices: Prices {
    var cents: Int
    func price(of item: String) -> Int { cents }
}

private struct Quote: AsyncHandler {
    static let id = "service.quote"
    static let retry = RetryPolicy(attempts: 1, finally: .orElse)
    func run(_ call: AsyncCall<TimerFired>) async throws {
        try call.end(result: try call.provided((any Prices).self).price(of: "tea"))
    }
}

private struct QuoteInStep: Handler {
    static let id = "service.quote-in-step"
    func run(_ call: borrowing Call<TimerFired>) throws {
        try call.setResult(try call.provided((any Prices).self).price(of: "tea"))
    }
}

@Suite(.ownThread) struct ServiceTests {
    @Test(
        "H40 handlers get what the program provides for them, by its type, and another program's after a restart"
    )
    func provided() async throws {
        func registry(_ cents: Int) -> HandlerRegistry {
            HandlerRegistry([Quote.self, QuoteInStep.self]).providing(
                FixedPrices(cents: cents), as: (any Prices).self)
        }
        try await withTestStore(registry: registry(450)) { test in
            for cents in [450, 475] {
                let ids = try test.store.step { step in
                    (
                        try step.schedule(Quote().durable, after: .zero),
                        try step.schedule(QuoteInStep().durable, after: .zero)
                    )
                }
                try await test.runDue()
                #expect(try await test.store.value(of: ids.0, as: Int.self) == cents)
                #expect(try await test.store.value(of: ids.1, as: Int.self) == cents)
                try test.restart(registry: registry(475))
            }
        }
    }

    @Test("H40 a service that nobody provides is an error that says so")
    func missing() async throws {
        try await withTestStore(registry: HandlerRegistry([Quote.self]).providing(FixedPrices(cents: 1))) {
            test in
            let id = try test.store.step { try $0.schedule(Quote().durable, after: .zero) }
            try await test.runDue()
            let error = try #require(try test.store.read { try $0.ending(of: id) }?.error)
            #expect(error.code.rawValue == "missing-instance")
            #expect(error.message.hasPrefix("this program provides no "), "\(error)")
        }
    }
}
