import Handlers
import HandlersTestKit
import Synchronization

/// The handlers of a shop that charges cards, and a table of what they did.
enum Bank {
    static let ledger = Schema(
        module: "ledger", migrations: ["CREATE TABLE note(id INTEGER PRIMARY KEY, text TEXT NOT NULL)"])

    /// Runs `body` with a store that knows the handlers of the shop and more.
    static func withShop(
        _ more: [any DurableHandler.Type] = [],
        onFailure: @escaping @Sendable (any Error) -> Void = { _ in },
        _ body: (TestStore) async throws -> Void
    ) async throws {
        try await withTestStore(
            registry: HandlerRegistry([Charge.self, GivenUp.self, Refund.self, Order.self] + more),
            schemas: [ledger], configuration: .init(onFailure: onFailure), body)
    }
}

/// Charges a card at its second attempt; at the first, the bank cannot be reached.
struct Charge: Handler {
    static let id = "bank.charge"
    static let retry = RetryPolicy(attempts: 3, firstDelay: .seconds(1), factor: 1)
    var order: Int
    func run(_ call: borrowing Call<TimerFired>) throws {
        if call.attempt == 1 { throw Unreachable() }
        try call.step.note("charge \(order)")
        try call.setResult(order)
    }
}

struct Unreachable: Error, CustomStringConvertible {
    let description = "the bank cannot be reached"
}

/// Runs instead of a charge that will not be made.
struct GivenUp: Handler {
    static let id = "bank.given-up"
    var order: Int
    func run(_ call: borrowing Call<Invalidation>) throws { try call.step.note("no charge \(order)") }
}

struct Refund: Handler {
    static let id = "bank.refund"
    var order: Int
    func run(_ call: borrowing Call<Invalidation>) throws {
        try call.step.note("refund \(order)\(call.error.map { ": \($0.code), \($0)" } ?? "")")
    }
}

/// Charges for an order, and gives the money back when it is canceled.
struct Order: Workflow {
    static let id = "bank.order"
    var number: Int
    var lane: String?
    var charges = 1
    func run(_ flow: Flow) async throws -> Int {
        try await flow.compensate(with: Refund(order: number).durable)
        let handlers = try (0..<charges).map {
            try Charge(order: number + $0).durable.orElse(GivenUp(order: number + $0).durable)
        }
        return try await flow.all(handlers, lane: lane.map { LanePlace($0) }).map {
            try $0.result(as: Int.self)
        }.reduce(0, +)
    }
}

extension Step {
    func note(_ text: String) throws { try write("INSERT INTO note(text) VALUES (?)", text) }
}

extension TestStore {
    /// What the handlers did, in order.
    func notes() throws -> [String] {
        try store.read { try $0.all("SELECT text FROM note ORDER BY id") { $0.text(0) } }
    }
}
