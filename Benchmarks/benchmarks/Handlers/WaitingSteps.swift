import BenchmarkHandlers
import Handlers

/// A store with many pending handlers that are answered in no order.
final class WaitingSteps {
    private static let fillGroup = 10_000

    private let store: HandlerStore
    private var pending: [Int64] = []
    private var newest: Int64 = 0
    /// Chooses who is answered: a linear congruence, so that every run is the same.
    private var choice: UInt64 = 1

    /// Makes a file with handlers that wait and closes it again.
    static func fill(_ path: String, pending count: Int) throws {
        let store = try BenchmarkStore.open(path)
        for start in stride(from: 0, to: count, by: fillGroup) {
            try store.step { step in
                for n in start..<min(start + fillGroup, count) { try step.bind(Waiting.numbered(n).durable) }
            }
        }
    }

    init(_ path: String) throws {
        store = try BenchmarkStore.open(path)
        pending = try store.step { step in
            try step.all("SELECT id FROM handler ORDER BY id") { (row) throws(HandlerError) in row.integer(0)
            }
        }
        newest = pending.last ?? 0
    }

    /// Ends one handler, which binds another.
    func step() throws {
        choice = choice &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        let index = Int((choice >> 33) % UInt64(pending.count))
        let disposition = try store.step { step in
            try step.end(HandlerID<Int>(rawValue: pending[index]), .result, with: Int(newest))
        }
        guard disposition == .ended else { throw BenchmarkError("a handler did not end: \(disposition)") }
        // Ids grow by one, and every end binds one.
        newest += 1
        pending[index] = newest
    }
}
