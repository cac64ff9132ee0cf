import HandlersTestKit
import TestSupport
import TestThreads
import Testing

@testable import Handlers

/// Puts another handler into its lane, and fails.
private struct Enqueueing: Handler {
    static let id = "open-lanes.enqueueing"
    static let retry = RetryPolicy(attempts: 1)
    func run(_ call: borrowing Call<Job>) throws {
        try call.step.enqueue(Write<Job>(text: "undone").durable, with: Job(), lane: LanePlace("mail"))
        throw Failure()
    }
}

/// What a step knows of a lane between the statements that store it.
@Suite(.ownThread, .engines(.sqlite, .postgres)) struct OpenLaneTests {
    private static let handlers: [any DurableHandler.Type] = [Enqueueing.self, Write<Job>.self]

    @discardableResult
    private func enqueue(
        _ step: borrowing Step, _ name: String, orderedBy key: String? = nil
    ) throws -> HandlerID<Job> {
        try step.enqueue(Write<Job>(text: name).durable, with: Job(), lane: LanePlace("mail", orderedBy: key))
    }

    private func running(_ rig: Rig) throws -> Int64? { try rig.store.integer("SELECT running FROM lane") }

    private func due(_ rig: Rig) throws -> Int64? {
        try rig.store.integer("SELECT count(*) FROM handler WHERE due IS NOT NULL")
    }

    @Test("H27 a place that a failed handler gave away in its step is free again")
    func undone() throws {
        try withRig(Self.handlers) { rig in
            try rig.store.step { step in
                try step.setLane(LaneRule("mail", concurrency: 2))
                try step.enqueue(Enqueueing().durable, with: Job(), lane: LanePlace("mail"))
            }
            try rig.runner.runDue()
            #expect(try running(rig) == 0)
            try rig.store.step { step in for name in ["a", "b"] { try enqueue(step, name) } }
            #expect(try due(rig) == 2)
        }
    }

    @Test("H27 a statement in a step sees the places that were given in it")
    func seen() throws {
        try withRig(Self.handlers) { rig in
            try rig.store.step { step in
                try step.setLane(LaneRule("mail", concurrency: 2))
                for name in ["a", "b", "c"] { try enqueue(step, name) }
                #expect(try step.laneStatus("mail").standstill == .full(places: 2))
                #expect(try step.first("SELECT running FROM lane") { $0.integer(0) } == 2)
            }
        }
    }

    @Test("H27 an ending gives its place to a handler that came in the same step")
    func sameStep() throws {
        try withRig(Self.handlers) { rig in
            try rig.store.step { step in
                try step.setLane(LaneRule("mail", concurrency: 1))
                let first = try enqueue(step, "a")
                try enqueue(step, "b")
                _ = try step.invalidate(first, reason: .cancelled)
            }
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["b"])
            #expect(try running(rig) == 0)
        }
    }

    @Test("H27 handlers with an order key that come in one step wait for each other")
    func ordered() throws {
        try withRig(Self.handlers) { rig in
            try rig.store.step { step in
                for name in ["a", "b", "c"] { try enqueue(step, name, orderedBy: "k") }
            }
            #expect(try due(rig) == 1)
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["a", "b", "c"])
        }
    }

    @Test("H27 a handler that comes does not overtake those that wait although a place is free")
    func noOvertaking() throws {
        try withRig(Self.handlers) { rig in
            try rig.store.step { step in
                try step.setLane(LaneRule("mail", concurrency: 1))
                for number in 0..<700 { try enqueue(step, "\(number)") }
            }
            // One step gives no more than 500 places.
            try rig.store.step { try $0.setLane(LaneRule("mail")) }
            try rig.store.step { _ = try enqueue($0, "last") }
            let placed = "SELECT count(*) FROM lane_entry WHERE state = \(LaneState.placed.rawValue)"
            #expect(try rig.store.integer(placed) == 701)
        }
    }
}
