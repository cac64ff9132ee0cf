import Handlers
import HandlersTestKit
import TestThreads
import Testing

/// Runs an order as a part of itself.
private struct Cart: Workflow {
    static let id = "bank.cart"
    func run(_ flow: Flow) async throws -> Int {
        try await flow.compensate(with: Refund(order: 1).durable)
        return try await flow.run(Order(number: 2).durable)
    }
}

@Suite(.ownThread) struct CanceledWaitTests {
    @Test(
        "H38 what a canceled workflow waits for ends before its compensations, and is never done after them",
        arguments: [nil, "bank"])
    func endsBefore(lane: String?) async throws {
        try await Bank.withShop { test in
            let id = try test.store.step { step in
                try step.setLane(LaneRule("bank", concurrency: 2))
                return try step.start(Order(number: 19, lane: lane).durable)
            }
            try await test.runDue()
            // The second attempt is due, and no runner has made it.
            test.clock.advance(by: .seconds(2))
            try test.store.step { _ = try $0.invalidate(id, reason: .cancelled) }
            #expect(try test.notes() == ["no charge 19", "refund 19"])
            try await test.advance(by: .seconds(60))
            #expect(try test.notes() == ["no charge 19", "refund 19"])
            #expect(try test.store.read { try $0.handlers() }.isEmpty)
        }
    }

    @Test("H38 the compensations of a workflow that is a part of a canceled one run before those of that one")
    func innerFirst() async throws {
        try await Bank.withShop([Cart.self]) { test in
            let id = try test.store.step { try $0.start(Cart().durable) }
            try await test.runDue()
            try test.store.step { _ = try $0.invalidate(id, reason: .cancelled) }
            #expect(try test.notes() == ["no charge 2", "refund 2", "refund 1"])
        }
    }

    @Test("H38 of more handlers than one step ends none is called after the compensations")
    func many() async throws {
        try await Bank.withShop { test in
            let id = try test.store.step { try $0.start(Order(number: 1, charges: 300).durable) }
            try await test.runDue()
            test.clock.advance(by: .seconds(2))
            try test.store.step { _ = try $0.invalidate(id, reason: .cancelled) }
            #expect(try test.notes().count == 201)
            try await test.advance(by: .seconds(60))
            #expect(try test.notes().filter { $0.hasPrefix("charge") }.isEmpty)
            #expect(try test.notes().count == 301)
            #expect(try test.store.read { try $0.handlers() }.isEmpty)
        }
    }
}
