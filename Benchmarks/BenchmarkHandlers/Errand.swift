public import Handlers

/// The workflow of the benchmarks: three handlers, one after the other, each of which counts.
public struct Errand: Workflow {
    public static let id = "bench.errand"
    var n: Int

    public init(_ n: Int) { self.n = n }

    public func run(_ flow: Flow) async throws -> Int {
        for _ in 0..<3 { try await flow.run(Count().durable) }
        return n
    }
}

/// Counts.
public struct Count: Handler {
    public static let id = "bench.count"

    public init() {}

    public func run(_ call: borrowing Call<TimerFired>) throws {
        try call.step.execute("UPDATE effect SET total = total + ? WHERE id = 1", 1)
    }
}

/// Called when several of them have ended.
public struct Collect: Handler {
    public static let id = "bench.collect"

    public init() {}

    public func run(_ call: borrowing Call<Joined>) throws {
        try call.step.execute("UPDATE effect SET total = total + ? WHERE id = 1", 1)
    }
}
