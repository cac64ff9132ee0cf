import Handlers
import OrderProgram

// The order of Snippets/OrderHandlers.swift, which is linked here as main.swift.

func service(_ request: String, key: String, attempt: Int) async throws {
    try OrderProgram.service(request, key: key)
}

func runManyOrders(_ tables: Schema) async throws {
    let program = OrderProgram(
        tables: tables, start: { _ = try Shop.start(order: $0, cents: $1, in: $2) },
        report: { try $0.schedule(Shop.report(), on: .daily(at: 9, in: "Europe/Zurich"), key: "report") })
    try await program.run()
}
