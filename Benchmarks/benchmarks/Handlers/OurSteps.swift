import BenchmarkHandlers
import Handlers

/// The steps as a program that uses this library makes them.
final class OurSteps: Steps {
    private let store: HandlerStore
    /// Ids grow by one, and every end binds one.
    private var oldest: Int
    private var newest: Int

    init(_ path: String, pending: Int) throws {
        store = try BenchmarkStore.open(path)
        oldest = 1
        newest = pending
        try store.step { step in
            for n in 1...pending { try step.bind(Advance.numbered(n).durable) }
        }
    }

    /// Makes the tables of a file for the floor.
    static func makeTables(_ path: String) throws -> String {
        _ = try BenchmarkStore.open(path)
        return path
    }

    func step(_ group: Int) throws {
        try store.step { step in
            for _ in 0..<group {
                newest += 1
                let disposition = try step.end(HandlerID<Int>(rawValue: Int64(oldest)), .result, with: newest)
                guard disposition == .ended else {
                    throw BenchmarkError("a handler did not end: \(disposition)")
                }
                oldest += 1
            }
        }
    }
}
