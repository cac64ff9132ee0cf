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

struct Payment: Codable {
    var cents: Int
}

/// What the handler of a delivery is called with.
struct Parcel: RestorableContext, Codable {
    var number: Int
}

/// Stands for a service that takes two parcels at a time.
enum Carrier {
    static func deliver(_ number: Int, to customer: String) async throws {
        try await Task.sleep(for: .milliseconds(10))
    }
}

extension Shop {
    // snippet.paid
    /// Waits for a signal.
    @Handler("shop.paid")
    static func paid(_ call: borrowing Call<SignalReceived<Payment>>, order: String) throws {
        try call.step.execute(
            "INSERT INTO letter VALUES (?)", "order \(order): thank you for \(call.value.cents) cents")
    }

    /// Runs instead after three days.
    @Handler("shop.not-paid")
    static func notPaid(_ call: borrowing Call<Invalidation>, order: String) throws {
        try call.step.execute("INSERT INTO letter VALUES (?)", "order \(order) is canceled: \(call.reason)")
    }
    // snippet.end

    // snippet.pack
    @Handler("shop.pack")
    static func pack(_ call: borrowing Call<TimerFired>, order: String) throws {
        // Ends with the chain, if its time is over before the signal comes.
        try call.step.bind(
            Shop.fetched(order: order).orElse(Shop.notPacked(order: order)), key: "fetched-\(order)")
        // Comes after the time of the chain.
        try call.step.withChainLimit(nil) {
            try call.step.schedule(Shop.remind(customer: "Eve"), after: .seconds(86_400))
        }
    }
    // snippet.end

    @Handler("shop.fetched")
    static func fetched(_ call: borrowing Call<SignalReceived<Parcel>>, order: String) throws {
        try call.step.execute("INSERT INTO letter VALUES (?)", "order \(order) is on its way")
    }

    @Handler("shop.not-packed")
    static func notPacked(_ call: borrowing Call<Invalidation>, order: String) throws {
        try call.step.execute("INSERT INTO letter VALUES (?)", "order \(order) is not sent: \(call.reason)")
    }

    // snippet.offer
    @Handler("shop.offer")
    static func offer(_ call: borrowing Call<SignalReceived<Payment>>) -> Payment { call.value }

    /// Runs when two offers have come, or three can come no more.
    @Handler("shop.choose")
    static func choose(_ call: borrowing Call<Joined>) throws {
        let offers = try call.children().compactMap { try? $0.result(as: Payment.self).cents }
        try call.step.execute("INSERT INTO letter VALUES (?)", "the best offer is \(offers.min() ?? 0) cents")
    }
    // snippet.end

    // snippet.ship
    @Handler("shop.ship", retry: .init(attempts: 10, firstDelay: .seconds(1)))
    static func ship(_ call: AsyncCall<Parcel>, customer: String) async throws {
        try await Carrier.deliver(call.number, to: customer)
        try call.end { step in try step.execute("INSERT INTO shipped VALUES (?)", call.number) }
    }
    // snippet.end

    @Handler("shop.clean-up")
    static func cleanUp(_ call: borrowing Call<TimerFired>) throws {
        try call.step.execute("DELETE FROM letter WHERE text = ''")
    }
}

let tables = Schema(
    module: "shop",
    migrations: ["CREATE TABLE letter(text TEXT NOT NULL)", "CREATE TABLE shipped(number INTEGER NOT NULL)"])
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
// snippet.chainLimit
try store.step { step in
    try step.withChainLimit(.seconds(1)) {
        try step.schedule(Shop.pack(order: "18").orElse(Shop.notPacked(order: "18")), after: .zero)
    }
}
// snippet.end
// snippet.key
try store.step { step in
    // Each time the program starts; there is one timer all the same.
    try step.schedule(Shop.cleanUp(), key: "clean-up", after: .seconds(3600), every: .seconds(86_400))
    let paid = try Shop.paid(order: "17").orElse(Shop.notPaid(order: "17"))
    try step.bind(paid, key: "payment-17", deadline: step.now + .seconds(259_200))
}
// snippet.end
// snippet.signal
try store.step { step in try step.signal("payment-17", Payment(cents: 450)) }
// snippet.end
// snippet.join
let choice = try store.step { step in
    let offers = try ["Ada", "Bob", "Eve"].map { supplier in
        AnyHandlerID(try step.bind(Shop.offer(), key: "offer-\(supplier)"))
    }
    return try step.join(Shop.choose(), when: .quorum(2), of: offers, timeout: .seconds(60))
}
// snippet.end
try store.step { step in
    try step.signal("offer-Eve", Payment(cents: 70))
    try step.signal("offer-Bob", Payment(cents: 80))
}
// snippet.lane
try store.step { step in
    try step.setLane(LaneRule("carrier", concurrency: 2, rate: LaneRate(100, per: .seconds(60))))
    for number in 1...3 {
        try step.enqueue(
            Shop.ship(customer: "Eve"), with: Parcel(number: number),
            lane: LanePlace("carrier", priority: 1, orderedBy: "Eve"))
    }
}
// snippet.end
// snippet.ending
let ending = try await store.ending(of: choice)
print("the choice ended with \(ending.outcome)")
// snippet.end
try await Task.sleep(for: .seconds(2))
await runner.close(finishing: .seconds(10))
for letter in try store.read({ try $0.all("SELECT text FROM letter ORDER BY rowid") { $0.text(0) } }) {
    print(letter)
}
print(
    "shipped:", try store.read { try $0.all("SELECT number FROM shipped ORDER BY rowid") { $0.integer(0) } })
