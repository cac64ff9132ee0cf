// A timer, a retried handler and an async handler; a HandlerRunner calls them in any process that opens the store.
import Foundation
import HandlerMacrosSupport

/// Stands for a service elsewhere, whose first answer is lost.
struct Bank {
    struct Unreachable: Error {}

    static func charge(_ cents: Int, key: String, attempt: Int) async throws -> String {
        guard attempt > 1 else { throw Unreachable() }
        return "\(cents) cents"
    }
}

enum Shop {
    // snippet.timer
    /// Runs inside a step. An error rolls its writes back, and the runner calls it again.
    @Handler("shop.remind")
    static func remind(_ call: borrowing Call<TimerFired>, customer: String) throws {
        try call.step.execute("INSERT INTO letter VALUES (?)", "\(customer), please pay")
    }
    // snippet.end

    // snippet.async
    /// May await. A second run after a kill gives the bank the same key, so the bank charges once.
    @Handler("shop.charge", retry: .init(attempts: 4, firstDelay: .milliseconds(100), finally: .orElse))
    static func charge(_ call: AsyncCall<TimerFired>, customer: String, cents: Int) async throws {
        let receipt = try await Bank.charge(cents, key: call.idempotencyKey, attempt: call.attempt)
        try call.end { step in
            try step.execute("INSERT INTO letter VALUES (?)", "\(customer) paid \(receipt)")
        }
    }

    /// Runs instead after the fourth error, with the reason `failed`.
    @Handler("shop.charge-failed")
    static func chargeFailed(_ call: borrowing Call<Invalidation>, customer: String) throws {
        try call.step.execute("INSERT INTO letter VALUES (?)", "\(customer): \(call.reason)")
    }
    // snippet.end
}

let tables = Schema(module: "shop", migrations: ["CREATE TABLE letter(text TEXT NOT NULL)"])
// snippet.runner
let store = try HandlerStore(path: "reminders.db", registry: .discovered(), schemas: [tables])
let runner = try HandlerRunner(store, .init { error in print(error) })
try runner.start()
// snippet.end
// snippet.schedule
try store.step { step in
    try step.schedule(Shop.remind(customer: "Ada"), after: .seconds(1))
    let charge = try Shop.charge(customer: "Bob", cents: 1999)
    try step.schedule(charge.orElse(Shop.chargeFailed(customer: "Bob")), after: .zero)
}
// snippet.end
try await Task.sleep(for: .seconds(2))
await runner.close(finishing: .seconds(10))
for letter in try store.read({ try $0.all("SELECT text FROM letter ORDER BY rowid") { $0.text(0) } }) {
    print(letter)
}
