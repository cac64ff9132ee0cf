import Handlers
import HandlersTestKit
import TestThreads
import Testing

/// Binds a handler of its chain.
private struct Begin: Handler {
    static let id = "deadlines.begin"
    var kind: String
    func run(_ call: borrowing Call<Job>) throws {
        let next = try Say(name: kind).durable.orElse(Gone(name: kind).durable)
        switch kind {
        case "plain": try call.step.bind(next)
        case "own": try call.step.bind(next, timeout: nil, deadline: call.step.now + .seconds(7200))
        case "timer":
            try call.step.schedule(
                Late(name: kind).durable.orElse(Gone(name: kind).durable), after: .seconds(7200))
        case "standing": try call.step.bindStanding(next)
        case "held": try call.step.run(Begin(kind: "plain").durable, with: call.context)
        default: throw Failure()
        }
    }
}

private struct Late: Handler {
    static let id = "deadlines.late"
    var name: String
    func run(_ call: borrowing Call<TimerFired>) throws { try call.step.note("\(name) late") }
}

/// Never ends by itself.
private struct Hang: AsyncHandler {
    static let id = "deadlines.hang"
    func run(_ call: AsyncCall<Job>) async throws { try await Task.sleep(for: .seconds(3600)) }
}

@Suite(.serialized, .ownThread) struct DeadlineTests {
    private static let handlers: [any DurableHandler.Type] = [
        Begin.self, Say.self, Gone.self, Late.self, Hang.self, Flaky<Thrice>.self,
    ]

    @Test(
        "H23 what a handler binds has its deadline, unless it is given its own or stands",
        arguments: [
            ("plain", 3600, true), ("held", 3600, true), ("timer", 3600, true), ("own", 7200, true),
            ("standing", 0, false),
        ])
    func inherited(kind: String, seconds: Int64, ends: Bool) throws {
        try withRig(Self.handlers) { rig in
            let deadline = Timestamp(milliseconds: rig.now + 3_600_000)
            let first = try rig.store.step {
                try $0.bind(Begin(kind: kind).durable, timeout: nil, deadline: deadline)
            }
            let start = rig.now
            #expect(try rig.end(first) == .ended)
            let waiting = try rig.handlers()
            #expect(waiting.map { $0.deadline?.milliseconds ?? 0 } == [ends ? start + seconds * 1000 : 0])
            rig.clock.advance(by: .seconds(seconds) - .milliseconds(1))
            try rig.runner.runDue()
            #expect(try rig.store.notes().isEmpty)
            rig.clock.advance(by: .milliseconds(1))
            try rig.runner.runDue()
            let name = kind == "held" ? "plain" : kind
            let gone = "\(name) gone: \(kind == "timer" ? "deadlines.late" : "test.say") timed-out"
            #expect(try rig.store.notes() == (ends ? [gone] : []))
            #expect(try rig.handlers().count == (ends ? 0 : 1))
        }
    }

    @Test("H23 a handler that is tried again ends at its deadline, and not after its last attempt")
    func retried() throws {
        try withRig(Self.handlers) { rig in
            let id = try rig.store.step {
                try $0.bind(
                    Flaky<Thrice>(name: "f").durable.orElse(Gone(name: "f").durable), timeout: nil,
                    deadline: $0.now + .seconds(15))
            }
            let start = rig.now
            try rig.end(id)
            try rig.runWhenDue(id)
            #expect(try rig.status(of: id)?.dueAt?.milliseconds == start + 15_000)
            try rig.runWhenDue(id)
            #expect(try rig.store.notes() == ["f gone: test.flaky.Thrice timed-out"])
            #expect(try rig.store.keptEnding(of: id)?.outcome == .timeout)
        }
    }

    @Test("H23 one that is repaired has no deadline any more")
    func repaired() throws {
        try withRig(Self.handlers) { rig in
            let id = try rig.store.step {
                try $0.bind(
                    Flaky<Never>(name: "f", until: 1).durable, timeout: nil, deadline: $0.now + .seconds(15))
            }
            _ = try rig.store.step { step in
                try step.execute("UPDATE handler SET name = 'unknown'")
                return try step.end(id, .result, with: Job())
            }
            #expect(try rig.status(of: id)?.state == .parked)
            rig.clock.advance(by: .seconds(60))
            try rig.store.step { step in
                try step.execute("UPDATE handler SET name = ?", "test.say")
                try step.execute("UPDATE handler SET arguments = CAST(? AS BLOB)", #"{"name":"s"}"#)
                try step.requeue(id)
            }
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["s go"])
        }
    }

    @Test("H23 an async handler that runs at its deadline is canceled, and ends then")
    func running() async throws {
        try await withFolder { folder in
            let store = try openStore(folder.file(), Self.handlers, time: .system)
            let runner = try HandlerRunner(store)
            let id = try store.step { step in
                let id = try step.bind(
                    Hang().durable.orElse(Gone(name: "h").durable), timeout: nil,
                    deadline: step.now + .milliseconds(300))
                try step.end(id, .result, with: Job())
                return id
            }
            try runner.start()
            while try store.keptEnding(of: id) == nil { try await Task.sleep(for: .milliseconds(5)) }
            #expect(try store.keptEnding(of: id)?.outcome == .timeout)
            #expect(try store.notes() == ["h gone: deadlines.hang timed-out"])
            #expect(try await runner.drain(for: .seconds(60)))
            runner.close()
        }
    }
}
