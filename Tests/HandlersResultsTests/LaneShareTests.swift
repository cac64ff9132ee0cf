import Handlers
import HandlersTestKit
import Synchronization
import TestThreads
import Testing

/// Remembers whose turn it was.
private struct Serve: Handler {
    static let id = "share.serve"
    var whose: String
    func run(_ call: borrowing Call<TimerFired>) throws { served.withLock { $0.append(whose) } }
}

private let served = Mutex<[String]>([])

@Suite(.ownThread, .serialized) struct LaneShareTests {
    /// Serves one entry each second.
    private func withLane(_ body: (TestStore) async throws -> Void) async throws {
        served.withLock { $0 = [] }
        try await Bank.withShop([Serve.self]) { test in
            try test.store.step { try $0.setLane(LaneRule("bank", rate: LaneRate(1, per: .seconds(1)))) }
            try await body(test)
        }
    }

    private func add(
        _ whose: String, _ count: Int = 1, share: String?, weight: Int = 1, priority: Int = 0,
        to test: TestStore
    ) throws {
        try test.store.step { step in
            for _ in 0..<count {
                try step.enqueue(
                    Serve(whose: whose).durable,
                    lane: LanePlace("bank", priority: priority, share: share, weight: weight))
            }
        }
    }

    @Test("H38 a tenant with 10 000 entries in a lane holds up none with three")
    func fair() async throws {
        try await withLane { test in
            try add("big", 10_000, share: "big", to: test)
            try await test.advance(by: .seconds(100))
            try add("small", 3, share: "small", to: test)
            let before = served.withLock { $0.count }
            try await test.advance(by: .seconds(7))
            let next = served.withLock { $0[before...] }
            #expect(next.filter { $0 == "small" }.count == 3, "\(next)")
        }
    }

    @Test("H38 shares start as often as their weights say, and a newcomer takes no more than its share")
    func weights() async throws {
        try await withLane { test in
            try add("three", 200, share: "three", weight: 3, to: test)
            try add("one", 200, share: "one", to: test)
            try await test.advance(by: .seconds(100))
            #expect(served.withLock { $0.suffix(80) }.filter { $0 == "three" }.count == 60)
            // New ones come all the time: each once, and so do the others have their turns.
            let before = served.withLock { $0.count }
            for number in 0..<40 {
                try add("new \(number)", share: "new \(number)", to: test)
                try await test.advance(by: .seconds(1))
            }
            let next = served.withLock { $0[before...] }
            #expect(next.filter { $0 == "three" }.count >= 9, "\(next)")
            #expect(next.filter { $0 == "one" }.count >= 3, "\(next)")
        }
    }

    @Test("H38 entries without a share have one together, and within a share the priority decides")
    func mixed() async throws {
        try await withLane { test in
            // These wait before the first one with a share comes.
            try add("plain", 20, share: nil, to: test)
            try add("late", share: "a", to: test)
            try add("urgent", share: "a", priority: 5, to: test)
            try add("plain", 5, share: nil, to: test)
            try await test.advance(by: .seconds(5))
            let first = served.withLock { $0.prefix(6) }
            #expect(first.filter { $0 != "plain" } == ["urgent", "late"], "\(first)")
            try await test.advance(by: .seconds(60))
            #expect(served.withLock { $0.count } == 27)
            #expect(
                try test.store.read { try $0.first("SELECT count(*) FROM lane_share") { $0.integer(0) } } == 0
            )
        }
    }
}
