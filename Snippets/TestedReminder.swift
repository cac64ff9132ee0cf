// Tests a handler that a timer calls: a week passes at once, and the program ends in between.
import Handlers
import HandlersTestKit

struct Remind: Handler {
    static let id = "shop.remind"
    var customer: String

    func run(_ call: borrowing Call<TimerFired>) throws {
        let paid = try call.step.first("SELECT 1 FROM payment WHERE customer = ?", customer) { $0.integer(0) }
        guard paid == nil else { return }
        try call.step.execute("INSERT INTO letter VALUES (?)", "\(customer), please pay")
        try call.step.schedule(Remind(customer: customer).durable, after: .seconds(86_400))
    }
}

let shop = Schema(
    module: "shop",
    migrations: ["CREATE TABLE payment(customer TEXT NOT NULL); CREATE TABLE letter(text TEXT NOT NULL)"])

// snippet.test
try await withTestStore(registry: HandlerRegistry([Remind.self]), schemas: [shop]) { test in
    func letters() throws -> Int64 {
        try test.store.read { try $0.first("SELECT count(*) FROM letter") { $0.integer(0) } } ?? 0
    }
    _ = try test.store.step { try $0.schedule(Remind(customer: "Ada").durable, after: .seconds(604_800)) }
    try await test.advance(by: .seconds(604_799))
    print("A week less a second: \(try letters()) letters")
    try test.restart()  // the program ends, and another one opens the store
    try await test.advance(by: .seconds(1))
    print("A week: \(try letters()) letter")
    try await test.advance(by: .seconds(86_400))
    print("A day later: \(try letters()) letters")
    try test.store.step { try $0.execute("INSERT INTO payment VALUES ('Ada')") }
    try await test.advance(by: .seconds(864_000))
    print("Paid, ten days later: \(try letters()) letters")
}
// snippet.end
