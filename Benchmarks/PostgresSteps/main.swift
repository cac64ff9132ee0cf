import BenchmarkHandlers
import Glibc
import Handlers
import HandlersPostgres
import Platform

// The steps of handlers/step-alone and handlers/group-64 on PostgreSQL: what PostgresFloor does in C.
//
//     postgres-steps CONNECTION STEPS GROUP

let words = CommandLine.arguments
guard words.count == 4, let steps = Int(words[2]), let group = Int(words[3]), group > 0 else {
    print("usage: postgres-steps CONNECTION STEPS GROUP")
    exit(2)
}

/// Returns with the store closed: a process that exits with an open one counts as dead, and for a minute after that each handler costs
/// two statements more.
func measure() throws {
    let store = try HandlerStore(
        postgres: words[1], registry: HandlerRegistry([Advance.self]), schemas: [Advance.schema],
        durability: .onPrimary)
    // Ids are drawn one after the other, so the oldest is known without a read, as in the benchmarks on SQLite.
    var oldest = try store.step { step in
        try (0..<group).map { try step.bind(Advance.numbered($0).durable).rawValue }.min() ?? 0
    }
    func run(_ count: Int) throws {
        for _ in 0..<count {
            // Ids that were drawn before a restart are not used again, so a gap would be found.
            let first = oldest
            try store.step { step in
                for id in first..<first + Int64(group) {
                    let disposition = try step.end(HandlerID<Int>(rawValue: id), .result, with: 1)
                    guard disposition == .ended else { fatalError("a handler did not end: \(disposition)") }
                }
            }
            oldest += Int64(group)
        }
    }
    try run(max(1, steps / group / 10))
    let start = SystemTime.monotonicNanoseconds()
    try run(steps / group)
    let taken = Double(SystemTime.monotonicNanoseconds() - start) / 1e9
    print("steps of \(group): \(Int(Double(steps / group * group) / taken)) steps/s")
}
try measure()
