package import Handlers
import Platform

/// A program around the order of a snippet.
///
///     order-workflow FOLDER SOCKET   starts the orders and signals the payments that run.py says, until it is killed
///     order-workflow rehearse        lets days pass at once, and prints what becomes of three orders
///
/// `order-handlers` does the same.
package struct OrderProgram: Sendable {
    let tables: Schema
    let start: @Sendable (_ order: String, _ cents: Int, _ step: borrowing Step) throws -> Void
    let report: @Sendable (_ step: borrowing Step) throws -> Void

    /// - Parameters:
    ///   - tables: The tables of the snippet.
    ///   - start: Starts an order.
    ///   - report: Schedules the daily report.
    package init(
        tables: Schema,
        start: @escaping @Sendable (_ order: String, _ cents: Int, _ step: borrowing Step) throws -> Void,
        report: @escaping @Sendable (_ step: borrowing Step) throws -> Void
    ) {
        (self.tables, self.start, self.report) = (tables, start, report)
    }

    /// Does what the arguments of the process say.
    package func run() async throws {
        switch CommandLine.arguments.dropFirst() {
        case ["rehearse"]: try await rehearse()
        case let arguments where arguments.count == 2:
            try serve(folder: arguments[1], OrderService(path: arguments[2]))
        default: print("usage: \(CommandLine.arguments[0]) FOLDER SOCKET | rehearse")
        }
    }

    /// Requests something of the service that the process was started with, or of the one of the rehearsal.
    ///
    /// - Throws: ``NoAnswer``; the first request with a key has none.
    package static func service(_ request: String, key: String) throws {
        if CommandLine.arguments.count == 3 {
            _ = try OrderService(path: CommandLine.arguments[2]).request("\(request) \(key)")
        } else {
            try Rehearsal.shared.request(request, key: key)
        }
    }

    // MARK: Many orders

    /// Events come at least once. This table, written with what an event causes, makes it once.
    private static let inbox = Schema(
        module: "inbox", migrations: ["CREATE TABLE inbox(event INTEGER PRIMARY KEY)"])

    private func serve(folder: String, _ service: OrderService) throws {
        let store = try HandlerStore(
            path: folder + "/orders.db", registry: .discovered(), schemas: [tables, Self.inbox])
        let runner = try HandlerRunner(store, .init { error in print(error) })
        try runner.start()
        try store.step(report)
        while true {
            let events = try service.request("next").split(separator: "\n").dropFirst()
            for event in events {
                let words = event.split(separator: " ").map(String.init)
                try store.step { step in try perform(words, step) }
                _ = try service.request("ack \(words[0])")
            }
            if events.isEmpty { SystemThread.sleep(microseconds: 20_000) }
        }
    }

    /// Starts an order or signals a payment, once: `3 order 17 1999`, `9 payment 17 1999`.
    private func perform(_ event: [String], _ step: borrowing Step) throws {
        let isNew = try step.execute(
            "INSERT INTO inbox VALUES (?) ON CONFLICT DO NOTHING", Int64(event[0]) ?? 0)
        guard isNew == 1, let cents = Int(event[3]) else { return }
        if event[1] == "order" {
            try start(event[2], cents, step)
        } else {
            try pay(event[2], cents, step)
        }
    }

    func pay(_ order: String, _ cents: Int, _ step: borrowing Step) throws {
        try step.signal("payment-\(order)", ["cents": cents])
    }
}
