import Handlers
import HandlersTestKit
import Synchronization
import TestThreads
import Testing

/// Remembers when it started.
private struct Start: Handler {
    static let id = "lane.start"
    func run(_ call: borrowing Call<TimerFired>) throws { starts.withLock { $0.append(call.step.now) } }
}

private let starts = Mutex<[Timestamp]>([])

/// Runs a part in a lane.
private struct Part: Workflow {
    static let id = "lane.part"
    func run(_ flow: Flow) async throws -> Nothing {
        try await flow.run(Start().durable, lane: LanePlace("bank"))
        return Nothing()
    }
}

@Suite(.ownThread, .serialized) struct LaneLimitTests {
    @Test(
        "H38 a strict rate has no more starts in any period, wherever it starts, also when starts come late",
        arguments: [1, 10])
    func strict(atOnce: Int) async throws {
        starts.withLock { $0 = [] }
        try await Bank.withShop([Start.self]) { test in
            try test.store.step { step in
                try step.setLane(LaneRule("bank", rate: LaneRate(10, per: .seconds(1), atOnce: atOnce)))
                for _ in 0..<60 { try step.enqueue(Start().durable, lane: LanePlace("bank")) }
            }
            // The program is away for a while, and each of its calls is late by some milliseconds.
            test.clock.advance(by: .seconds(7))
            while starts.withLock({ $0.count }) < 60 {
                try await test.runDue()
                test.clock.advance(by: .milliseconds(37))
            }
            let times = starts.withLock { $0 }
            let most = times.map { start in times.filter { $0 >= start && $0 < start + .seconds(1) }.count }
                .max()
            // The token bucket lets a full bucket start before and after the pause, and the rate beside them.
            #expect(most == (atOnce == 1 ? 10 : 30))
        }
    }

    @Test("H38 what a workflow runs in a lane obeys its limits")
    func flowInLane() async throws {
        starts.withLock { $0 = [] }
        try await Bank.withShop([Start.self, Part.self]) { test in
            let start = test.clock.wall
            try test.store.step { step in
                try step.setLane(LaneRule("bank", rate: LaneRate(1, per: .seconds(60))))
                for _ in 0..<3 { try step.start(Part().durable) }
            }
            try await test.advance(by: .seconds(600))
            #expect(starts.withLock { $0 }.map { $0 - start } == [.zero, .seconds(60), .seconds(120)])
            #expect(try test.store.read { try $0.handlers() }.isEmpty)
        }
    }

    @Test("H38 an entry of a lane is found and canceled by its key, and bound once for it")
    func key() async throws {
        try await Bank.withShop([Start.self]) { test in
            try test.store.step { step in
                try step.setLane(LaneRule("bank", rate: LaneRate(1, per: .seconds(60))))
                try step.enqueue(Start().durable, lane: LanePlace("bank"))
                let id = try step.enqueue(Start().durable, key: "charge-17", lane: LanePlace("bank"))
                #expect(try step.enqueue(Start().durable, key: "charge-17", lane: LanePlace("bank")) == id)
                let other = try step.enqueue(
                    Start().durable, key: "charge-17", ifTaken: .replace, lane: LanePlace("bank"))
                #expect(try step.ending(of: id)?.reason == .replaced)
                #expect(try step.status(ofKey: "charge-17")?.id == AnyHandlerID(other))
                try step.invalidate(key: "charge-17", reason: .cancelled)
                #expect(try step.ending(ofKey: "charge-17")?.reason == .cancelled)
            }
        }
    }
}
