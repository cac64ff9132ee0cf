// An order as a workflow: it goes on in the next process where this one has died. docs/guide/workflows.md explains it.
import HandlerMacrosSupport

struct Payment: Codable { var cents: Int }
struct Receipt: Codable { var order: String, suppliers: [String] }
struct OrderError: Error, CustomStringConvertible { var description: String }

enum Shop {
    // snippet.order
    @Workflow("shop.order")
    static func order(_ flow: Flow, number: String, cents: Int) async throws -> Receipt {
        // Runs if the order fails or is canceled, in whatever process that happens.
        try await flow.compensate(with: Shop.release(order: number))
        let requests = try ["Ada", "Bob", "Eve"].map { try Shop.reserve(order: number, at: $0) }
        let answers = try await flow.all(requests, within: .seconds(60))
        let suppliers = answers.compactMap { try? $0.result(as: String.self) }
        guard suppliers.count >= 2 else { throw OrderError(description: "too few suppliers") }
        let bill = try await flow.run(Shop.charge(order: number, cents: cents), as: String.self)
        let payment = try await flow.signal(
            "payment-\(number)", as: Payment.self, within: .seconds(3 * 24 * 3600))
        guard payment != nil else { throw OrderError(description: "not paid") }
        try await flow.step { try $0.execute("INSERT INTO log VALUES (?)", "\(bill) is paid") }
        return Receipt(order: number, suppliers: suppliers)
    }
    // snippet.end

    // snippet.handlers
    static let patient = RetryPolicy(attempts: 10, firstDelay: .milliseconds(100), finally: .orElse)

    /// Runs as often as its policy says, and gives the supplier the same key each time.
    @Handler("shop.reserve", retry: Shop.patient, limit: .seconds(10))
    static func reserve(_ call: AsyncCall<TimerFired>, order: String, at supplier: String) async throws
        -> String
    {
        try await service("reserve \(order) \(supplier)", key: call.idempotencyKey, attempt: call.attempt)
        return supplier
    }

    @Handler("shop.charge", retry: Shop.patient, limit: .seconds(10))
    static func charge(_ call: AsyncCall<TimerFired>, order: String, cents: Int) async throws -> String {
        try await service("charge \(order)", key: call.idempotencyKey, attempt: call.attempt)
        return "bill \(order)"
    }

    @Handler("shop.release")
    static func release(_ call: borrowing Call<Invalidation>, order: String) throws {
        try call.step.execute("INSERT INTO log VALUES (?)", "order \(order) is released: \(call.reason)")
    }

    @Handler("shop.report")
    static func report(_ call: borrowing Call<TimerFired>) throws {
        try call.step.execute("INSERT INTO log SELECT count(*) || ' lines until ' || ? FROM log", call.dueAt)
    }
    // snippet.end
}

let tables = Schema(module: "shop", migrations: ["CREATE TABLE log(text TEXT NOT NULL)"])
#if ORDER_KILLS  // Benchmarks/OrderKills has another service, and starts many orders.
    try await runManyOrders(tables)
#else
    /// Stands for programs elsewhere, whose first answer is lost.
    func service(_ request: String, key: String, attempt: Int) async throws {
        if attempt == 1 { throw OrderError(description: "no answer to \(request)") }
    }
    let store = try HandlerStore(path: "orders.db", registry: .discovered(), schemas: [tables])
    let runner = try HandlerRunner(store, .init { error in print(error) })
    try runner.start()
    // snippet.start
    let order = try store.step { step in
        // Each time the program starts; there is one timer all the same.
        try step.schedule(Shop.report(), on: .daily(at: 9, in: "Europe/Zurich"), key: "report")
        // In the step in which the order is stored: its key is free again when it has ended.
        return try step.start(Shop.order(number: "17", cents: 1999), key: "order-17")
    }
    // snippet.end
    try store.step { step in try step.signal("payment-17", Payment(cents: 1999)) }
    let receipt = try await store.value(of: order, as: Receipt.self)
    print("order \(receipt.order): \(receipt.suppliers.joined(separator: ", "))")
    await runner.close(finishing: .seconds(10))
#endif
