import Handlers
import TestSupport
import TestThreads
import Testing

/// Binds two handlers in its call, and one in a part that is undone.
private struct BindTwo<Context: RestorableContext>: Handler {
    static var id: String { "chain-of-call.two-\(Context.self)" }
    func run(_ call: borrowing Call<Context>) throws { try ChainOfCallTests.bindTwo(in: call.step) }
}

/// The same, after a part that is undone.
private struct BindAfterUndoing: Handler {
    static let id = "chain-of-call.after-undoing"
    func run(_ call: borrowing Call<Job>) throws {
        let step = call.step
        try? step.undoingOnError {
            try step.bind(Say(name: "undone").durable)
            throw Failure()
        }
        try ChainOfCallTests.bindTwo(in: step)
    }
}

private struct Onward: Handler {
    static let id = "chain-of-call.onward"
    var left: Int
    func run(_ call: borrowing Call<Job>) throws {
        if left > 0 { try call.step.bind(Onward(left: left - 1).durable) }
    }
}

/// Ends a handler that starts a chain of its own.
private struct EndOther: Handler {
    static let id = "chain-of-call.end-other"
    var other: Int64
    func run(_ call: borrowing Call<Job>) throws {
        _ = try call.step.end(HandlerID<Job>(rawValue: other), .result, with: Job("x"))
        try ChainOfCallTests.bindTwo(in: call.step)
    }
}

@Suite("Chains of calls", .engines(.sqlite, .postgres))
struct ChainOfCallTests {
    private static let handlers: [any DurableHandler.Type] = [
        BindTwo<Job>.self, BindTwo<TimerFired>.self, BindAfterUndoing.self, EndOther.self, Onward.self,
        Say.self,
    ]

    fileprivate static func bindTwo(in step: borrowing Step) throws {
        for name in ["first", "second"] { _ = try step.bind(Say(name: name).durable) }
    }

    /// The rows of `Say`, with the row of the root of the chain of each.
    private func chains(_ rig: Rig) throws -> [(id: AnyHandlerID, root: AnyHandlerID)] {
        try rig.handlers().filter { $0.name == Say.id }.map { ($0.id, $0.trace) }
    }

    /// That each two of them are a chain of their own.
    private func expectPairs(_ rig: Rig, _ count: Int) throws {
        let found = try chains(rig)
        #expect(found.count == 2 * count)
        #expect(found.map(\.root) == found.indices.map { found[$0 - $0 % 2].id })
    }

    @Test("H42 each call of a standing handler is a chain of its own")
    func standing() throws {
        try withRig(Self.handlers) { rig in
            let id = try rig.store.step { try $0.bindStanding(BindTwo<Job>().durable) }
            try rig.store.step { step in
                for _ in 0..<2 { _ = try step.call(id, with: Job("x")) }
            }
            try expectPairs(rig, 2)
            let ofStanding = try rig.store.read { try $0.handlers(trace: AnyHandlerID(id)) }
            #expect(ofStanding.map(\.id) == [AnyHandlerID(id)])
        }
    }

    @Test(
        "H42 each call of a timer with an interval or a calendar is a chain of its own",
        arguments: [true, false])
    func timers(hasInterval: Bool) throws {
        try withRig(Self.handlers) { rig in
            let handler = try BindTwo<TimerFired>().durable
            let everyMinute = try CalendarRule("* * * * *", in: "UTC")
            let id = try rig.store.step { step in
                if hasInterval { return try step.schedule(handler, after: .zero, every: .seconds(60)) }
                return try step.schedule(handler, on: everyMinute, key: "each minute")
            }
            for _ in 0..<3 { try rig.runWhenDue(id) }
            try expectPairs(rig, 3)
        }
    }

    @Test("H42 a call that waits for a runner is the root of its chain")
    func kept() throws {
        try withRig(Self.handlers + [Flaky<Standard>.self]) { rig in
            let id = try rig.store.step { try $0.bindStanding(Flaky<Standard>(name: "a", until: 2).durable) }
            _ = try rig.store.step { try $0.call(id, with: Job("x")) }
            let rows = try rig.handlers()
            #expect(rows.map(\.trace) == rows.map(\.id))
        }
    }

    @Test("H42 what a part binds that is undone starts no chain")
    func undone() throws {
        try withRig(Self.handlers) { rig in
            let id = try rig.store.step { try $0.bindStanding(BindAfterUndoing().durable) }
            _ = try rig.store.step { try $0.call(id, with: Job("x")) }
            try expectPairs(rig, 1)
        }
    }

    @Test("H42 what ends in the call of a standing handler stays in its own chain")
    func ended() throws {
        try withRig(Self.handlers) { rig in
            let other = try rig.store.bind(Onward(left: 1).durable)
            let id = try rig.store.step { try $0.bindStanding(EndOther(other: other.rawValue).durable) }
            _ = try rig.store.step { try $0.call(id, with: Job("x")) }
            try expectPairs(rig, 1)
            let next = try #require(try rig.handlers().first { $0.name == Onward.id })
            #expect(next.trace == AnyHandlerID(other))
        }
    }
}
