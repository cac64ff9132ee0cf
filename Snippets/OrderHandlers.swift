// The order of OrderWorkflow as handlers, each of which binds the next one. docs/guide/workflows.md compares the two.
import HandlerMacrosSupport

struct Payment: Codable { var cents: Int }
struct Receipt: Codable { var order: String, suppliers: [String] }
struct OrderError: Error, CustomStringConvertible { var description: String }

enum Shop {
    // snippet.order
    /// Binds the order, which waits for its receipt, and asks three suppliers.
    static func start(
        order number: String, cents: Int, in step: borrowing Step
    ) throws -> HandlerID<SignalReceived<Receipt>> {
        let order = try Shop.order().orElse(Shop.release(order: number))
        let id = try step.bind(order, key: "order-\(number)", ifTaken: .refuse)
        let requests = try ["Ada", "Bob", "Eve"].map { supplier in
            AnyHandlerID(try step.schedule(Shop.reserve(order: number, at: supplier), after: .zero))
        }
        let answered = try Shop.answered(order: number, cents: cents)
            .orElse(Shop.minuteIsOver(order: number, cents: cents))
        try step.join(answered, when: .all, of: requests, deadline: step.now + .seconds(60))
        return id
    }

    @Handler("shop.order")
    static func order(_ call: borrowing Call<SignalReceived<Receipt>>) -> Receipt { call.value }

    /// Runs if the order fails or is canceled: ends what it waits for.
    @Handler("shop.release")
    static func release(_ call: borrowing Call<Invalidation>, order: String) throws {
        try call.step.execute("INSERT INTO log VALUES (?)", "order \(order) is released: \(call.reason)")
        try call.step.invalidate(key: "charge-\(order)", reason: .cancelled)
        try call.step.invalidate(key: "payment-\(order)", reason: .cancelled)
    }
    // snippet.end

    // snippet.reserve
    static let patient = RetryPolicy(attempts: 10, firstDelay: .milliseconds(100), finally: .orElse)

    /// Runs as often as its policy says, and gives the supplier the same key each time.
    @Handler("shop.reserve", retry: Shop.patient, limit: .seconds(10))
    static func reserve(_ call: AsyncCall<TimerFired>, order: String, at supplier: String) async throws {
        try await service("reserve \(order) \(supplier)", key: call.idempotencyKey, attempt: call.attempt)
        try call.end { try $0.execute("INSERT INTO reservation VALUES (?, ?)", order, supplier) }
    }

    /// Runs when all requests have ended.
    @Handler("shop.answered")
    static func answered(_ call: borrowing Call<Joined>, order: String, cents: Int) throws {
        try chargeIfReserved(order, cents, in: call.step)
    }

    /// Runs instead after a minute.
    @Handler("shop.minute-is-over")
    static func minuteIsOver(_ call: borrowing Call<Invalidation>, order: String, cents: Int) throws {
        try chargeIfReserved(order, cents, in: call.step)
    }

    private static func chargeIfReserved(_ order: String, _ cents: Int, in step: borrowing Step) throws {
        // The order may have been canceled.
        guard try step.status(ofKey: "order-\(order)") != nil else { return }
        let suppliers = try step.all(
            "SELECT supplier FROM reservation WHERE number = ? ORDER BY supplier", order
        ) { $0.text(0) }
        guard suppliers.count >= 2 else {
            try step.invalidate(key: "order-\(order)", reason: .failed)
            return
        }
        let charge = try Shop.charge(order: order, cents: cents, suppliers: suppliers)
            .orElse(Shop.giveUp(order: order))
        try step.schedule(charge, key: "charge-\(order)", after: .zero)
    }
    // snippet.end

    // snippet.charge
    @Handler("shop.charge", retry: Shop.patient, limit: .seconds(10))
    static func charge(
        _ call: AsyncCall<TimerFired>, order: String, cents: Int, suppliers: [String]
    ) async throws {
        try await service("charge \(order)", key: call.idempotencyKey, attempt: call.attempt)
        try call.end { step in
            let paid = try Shop.paid(order: order, suppliers: suppliers).orElse(Shop.giveUp(order: order))
            try step.bind(paid, key: "payment-\(order)", deadline: step.now + .seconds(3 * 24 * 3600))
        }
    }

    @Handler("shop.paid")
    static func paid(
        _ call: borrowing Call<SignalReceived<Payment>>, order: String, suppliers: [String]
    ) throws {
        try call.step.execute("INSERT INTO log VALUES (?)", "bill \(order) is paid")
        try call.step.signal("order-\(order)", Receipt(order: order, suppliers: suppliers))
    }

    /// Runs if the charge fails, or nobody pays for three days.
    @Handler("shop.give-up")
    static func giveUp(_ call: borrowing Call<Invalidation>, order: String) throws {
        try call.step.invalidate(key: "order-\(order)", reason: .failed)
    }
    // snippet.end

    @Handler("shop.report")
    static func report(_ call: borrowing Call<TimerFired>) throws {
        try call.step.execute("INSERT INTO log SELECT count(*) || ' lines until ' || ? FROM log", call.dueAt)
    }
}

let tables = Schema(
    module: "shop",
    migrations: [
        "CREATE TABLE log(text TEXT NOT NULL)",
        "CREATE TABLE reservation(number TEXT NOT NULL, supplier TEXT NOT NULL)",
    ])

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
        return try Shop.start(order: "17", cents: 1999, in: step)
    }
    // snippet.end
    try store.step { step in try step.signal("payment-17", Payment(cents: 1999)) }
    let receipt = try await store.value(of: order, as: Receipt.self)
    print("order \(receipt.order): \(receipt.suppliers.joined(separator: ", "))")
    await runner.close(finishing: .seconds(10))
#endif
