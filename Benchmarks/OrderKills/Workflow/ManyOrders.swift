import Handlers
import OrderProgram

// The order of Snippets/OrderWorkflow.swift, which is linked here as main.swift.

func service(_ request: String, key: String, attempt: Int) async throws {
    try OrderProgram.service(request, key: key)
}

func runManyOrders(_ tables: Schema) async throws {
    let program = OrderProgram(
        tables: tables, start: { try $2.start(Shop.order(number: $0, cents: $1), key: "order-\($0)") },
        report: { try $0.schedule(Shop.report(), on: .daily(at: 9, in: "Europe/Zurich"), key: "report") })
    try await program.run()
}
