// Machines that share one store. STORE is the connection string that `make fleet-server` prints.
import Foundation
import HandlerMacrosSupport
import HandlersPostgres

enum Orders {
    static let schema = Schema(
        module: "orders",
        migrations: ["CREATE TABLE packed(number INTEGER PRIMARY KEY, process INTEGER NOT NULL)"])
    static let process = Int(ProcessInfo.processInfo.processIdentifier)

    @Handler("orders.pack")
    static func pack(_ call: borrowing Call<TimerFired>, number: Int) throws {
        try call.step.write("INSERT INTO packed(number, process) VALUES (?, ?)", number, process)
    }
}

do {
    let store = try HandlerStore(
        postgres: ProcessInfo.processInfo.environment["STORE"] ?? "", registry: .discovered(),
        schemas: [Orders.schema])
    let runner = try HandlerRunner(store)
    try runner.start()
    print(
        "process \(Orders.process): a number binds that many handlers, an empty line prints how many each process has packed"
    )
    while let line = readLine() {
        if let count = Int(line) {
            try store.step { step in
                let first = try step.first("SELECT count(*) FROM packed") { Int($0.integer(0)) } ?? 0
                for number in first..<first + count {
                    _ = try step.schedule(
                        Orders.pack(number: number), after: .milliseconds(100 * (number - first)))
                }
            }
        }
        let packed = try store.read { snapshot in
            try snapshot.all("SELECT process, count(*) FROM packed GROUP BY process ORDER BY process") {
                "process \($0.integer(0)): \($0.integer(1))"
            }
        }
        print(packed.joined(separator: "\n"))
    }
    runner.close()
} catch {
    print("Fleet: \(error)")
    exit(1)
}
