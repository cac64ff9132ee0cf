// A service without an account: invoices that are charged at a bank with limits, and an import that takes long.
// docs/guide/service.md explains it.
import HandlerMacrosSupport

/// Stands for a bank elsewhere: its first answer to each request says that it is busy.
struct Bank {
    var status: Int
    var retryAfter = Duration.milliseconds(100)

    static func charge(_ cents: Int, key: String, attempt: Int) async throws -> Bank {
        if attempt == 1 { return Bank(status: 429) }
        return Bank(status: cents > 100_000 ? 402 : 200)
    }
}

// snippet.code
extension ErrorCode<CallError> {
    static var declined: Self { Self(rawValue: "declined") }
}
// snippet.end

enum Invoices {
    // snippet.charge
    @Handler("invoice.charge", retry: .init(attempts: 8, finally: .orElse), limit: .seconds(30))
    static func charge(_ call: AsyncCall<TimerFired>, number: Int, cents: Int) async throws -> String {
        let answer = try await Bank.charge(cents, key: call.idempotencyKey, attempt: call.attempt)
        switch answer.status {
        case 402: throw CallError(.declined, "the bank refuses \(cents) cents", retry: .never)
        case 429: throw CallError(.failed, "the bank is busy", retry: .after(answer.retryAfter))
        default: return "receipt \(number)"
        }
    }
    // snippet.end

    // snippet.invoice
    @Workflow("invoice.invoice")
    static func invoice(_ flow: Flow, number: Int, customer: String, cents: Int) async throws -> String {
        try await flow.compensate(with: Invoices.refund(number: number))
        do {
            return try await flow.run(
                Invoices.charge(number: number, cents: cents), lane: LanePlace("bank", share: customer))
        } catch let error as CallError where error.code == .declined {
            try await flow.step {
                try $0.execute("INSERT INTO log VALUES (?)", "invoice \(number): \(error)")
            }
            return "rejected"
        }
    }

    /// Runs if the invoice fails or is canceled, when its charge has ended or can never be made.
    @Handler("invoice.refund")
    static func refund(_ call: borrowing Call<Invalidation>, number: Int) throws {
        let why = call.error.map { "\($0)" } ?? "\(call.reason)"
        try call.step.execute("INSERT INTO log VALUES (?)", "invoice \(number) is given back: \(why)")
    }
    // snippet.end

    // snippet.import
    @Handler("invoice.import", silence: .seconds(60))
    static func importRows(_ call: AsyncCall<TimerFired>, pages: Int) async throws {
        for page in (try call.saved(as: Int.self) ?? 0)..<pages {
            try await Task.sleep(for: .milliseconds(1))  // stands for reading a page elsewhere
            try call.save(page + 1, note: "\(page + 1) of \(pages) pages")
        }
        try call.end { step in try step.execute("INSERT INTO log VALUES (?)", "\(pages) pages are there") }
    }
    // snippet.end
}

let tables = Schema(module: "invoices", migrations: ["CREATE TABLE log(text TEXT NOT NULL)"])

// snippet.service
let store = try HandlerStore(path: "invoices.db", registry: .discovered(), schemas: [tables])
try await withRunner(store, .init { error in print(error) }, finishing: .seconds(10)) { runner in
    try store.step { step in
        // The bank takes two at once and ten a second, and refuses more.
        try step.setLane(
            LaneRule("bank", concurrency: 2, rate: LaneRate(10, per: .seconds(1), atOnce: 1)))
    }
    try await serve()  // or, where other processes fill the store: try await runner.untilCanceled()
}
// snippet.end

func serve() async throws {
    let invoices = try store.step { step in
        try step.schedule(Invoices.importRows(pages: 3), after: .zero)
        return try [1999, 200_000].enumerated().map { number, cents in
            try step.start(
                Invoices.invoice(number: number, customer: "Ada", cents: cents), key: "invoice-\(number)")
        }
    }
    for invoice in invoices { print(try await store.value(of: invoice, as: String.self)) }
}
