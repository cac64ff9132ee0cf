// A subscription that is billed for ever, until it is canceled. docs/guide/workflows.md explains it.
import HandlerMacrosSupport

enum Shop {
    // snippet.loop
    @Workflow("shop.subscription")
    static func subscription(_ flow: Flow, customer: String, month: Int) async throws -> Int {
        try await flow.run(Shop.bill(customer: customer, month: month))
        if try await Shop.isCanceled(flow, customer, within: .milliseconds(10)) { return month }
        try flow.again(Shop.subscription(customer: customer, month: month + 1))
    }
    // snippet.end

    // snippet.race
    /// Waits for the end of the month or for the cancellation, whichever comes first.
    static func isCanceled(
        _ flow: Flow, _ customer: String, within time: Duration
    ) async throws -> Bool {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                try await flow.sleep(for: time)
                return false
            }
            group.addTask {
                _ = try await flow.signal("cancel-\(customer)", as: String.self)
                return true
            }
            // What the other task waits for is canceled with it.
            defer { group.cancelAll() }
            return try await group.next() ?? false
        }
    }
    // snippet.end

    @Handler("shop.bill")
    static func bill(_ call: borrowing Call<TimerFired>, customer: String, month: Int) throws {
        try call.step.execute("INSERT INTO bill VALUES (?, ?)", customer, month)
        // A customer who has had enough.
        if month == 3 { _ = try call.step.signal("cancel-\(customer)", "too expensive") }
    }
}

let tables = Schema(
    module: "shop", migrations: ["CREATE TABLE bill(customer TEXT NOT NULL, month INTEGER NOT NULL)"])
let store = try HandlerStore(path: "subscriptions.db", registry: .discovered(), schemas: [tables])
let runner = try HandlerRunner(store, .init { error in print(error) })
try runner.start()
let subscription = try store.step { step in
    try step.start(Shop.subscription(customer: "Ada", month: 1), key: "subscription-Ada")
}
let last = try await store.value(of: subscription, as: Int.self)
let bills = try store.read { try $0.all("SELECT month FROM bill ORDER BY month") { $0.integer(0) } }
print("billed for \(bills), canceled in month \(last)")
await runner.close(finishing: .seconds(10))
