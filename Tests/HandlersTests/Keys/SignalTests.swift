import Handlers
import HandlersTestKit
import TestSupport
import TestThreads
import Testing

private struct Charge: Codable {
    var cents: Int
}

private struct Paid: Handler {
    static let id = "signals.paid"
    static let retry = RetryPolicy(attempts: 2, firstDelay: .seconds(1))
    var order: String
    func run(_ call: borrowing Call<SignalReceived<Charge>>) throws {
        if call.value.cents < 0, call.attempt == 1 { throw Failure() }
        try call.step.note("\(order) \(call.value.cents)")
    }
}

private struct PaidLater: AsyncHandler {
    static let id = "signals.paid-later"
    var order: String
    func run(_ call: AsyncCall<SignalReceived<Charge>>) async throws {
        let text = "\(order) \(call.value.cents)"
        try call.end { try $0.note(text) }
    }
}

/// Waits for the next signal of the same key.
private struct Next: Handler {
    static let id = "signals.next"
    func run(_ call: borrowing Call<SignalReceived<Int>>) throws {
        try call.step.note("\(call.value)")
        try call.step.bind(Next().durable, key: "next")
    }
}

/// Stands until it is told to end.
private struct Stand: Handler {
    static let id = "signals.stand"
    func run(_ call: borrowing Call<SignalReceived<Int>>) throws {
        try call.step.note("stand \(call.value)")
        if call.value == 2 { try call.step.invalidate(key: "stand", reason: .cancelled) }
    }
}

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct SignalTests {
    private static let handlers: [any DurableHandler.Type] = [
        Paid.self, PaidLater.self, Next.self, Say.self, Gone.self, Stand.self,
    ]

    private func waiting(_ rig: Rig) throws -> Int64? {
        try rig.store.integer("SELECT count(*) FROM early_signal")
    }

    @Test("H24 a signal calls the handler that waits, once, and commits with the rest of the step")
    func calls() throws {
        try withRig(Self.handlers) { rig in
            let id = try rig.store.step { try $0.bind(Paid(order: "17").durable, key: "17") }
            _ = try? rig.store.step { step in
                #expect(try step.signal("17", Charge(cents: 5)) == .ended)
                throw Failure()
            }
            #expect(try rig.store.notes().isEmpty && rig.store.keptEnding(of: id) == nil)
            #expect(try rig.store.step { try $0.signal("17", Charge(cents: 5)) } == .ended)
            #expect(try rig.store.notes() == ["17 5"])
            #expect(try rig.store.keptEnding(of: id)?.outcome == .result)
            // The next one finds nobody.
            #expect(try rig.store.step { try $0.signal("17", Charge(cents: 6)) } == nil)
            #expect(try rig.store.notes() == ["17 5"] && waiting(rig) == 1)
        }
    }

    @Test(
        "H24 signals that come early wait, in their order, each for one handler, and are called by the runner"
    )
    func early() throws {
        try withRig(Self.handlers) { rig in
            for number in 0..<100 { #expect(try rig.store.step { try $0.signal("next", number) } == nil) }
            // Each handler binds the next: as many as there are signals would be nested too deeply.
            try rig.store.step { _ = try $0.bind(Next().durable, key: "next", timeout: .seconds(1)) }
            #expect(try rig.store.notes().isEmpty)
            try rig.runner.runDue()
            #expect(try rig.store.notes() == (0..<100).map(String.init))
            #expect(try waiting(rig) == 0)
            #expect(try rig.store.step { try $0.signal("next", 100) } == .ended)
            #expect(try rig.store.notes().last == "100")
        }
    }

    @Test("H24 a standing handler gets all signals, those that waited at once")
    func standing() throws {
        try withRig(Self.handlers) { rig in
            try rig.store.step { step in
                for cents in 1...3 { try step.signal("all", Charge(cents: cents)) }
                try step.bindStanding(Paid(order: "s").durable, key: "all")
                try step.signal("all", Charge(cents: 4))
            }
            #expect(try rig.store.notes() == ["s 1", "s 2", "s 3", "s 4"])
            #expect(try rig.handlers().map(\.key) == ["all"])
        }
    }

    @Test(
        "H24 a standing handler that ends itself leaves the signals that wait for the next one with its key")
    func endsItself() throws {
        try withRig(Self.handlers) { rig in
            try rig.store.step { step in
                for number in 1...4 { try step.signal("stand", number) }
                try step.bindStanding(Stand().durable, key: "stand")
            }
            #expect(try rig.store.notes() == ["stand 1", "stand 2"] && waiting(rig) == 2)
            try rig.store.step { _ = try $0.bindStanding(Stand().durable, key: "stand") }
            #expect(try rig.store.notes().last == "stand 4")
        }
    }

    @Test("H24 an async handler gets its signal, early or not, under a lease")
    func async() async throws {
        try await withFolder { folder in
            let rig = try Rig(folder.file(), Self.handlers)
            defer { rig.runner.close() }
            try rig.store.step { step in
                try step.signal("early", Charge(cents: 1))
                try step.bind(PaidLater(order: "e").durable, key: "early")
                try step.bind(PaidLater(order: "w").durable, key: "waits")
                #expect(try step.signal("waits", Charge(cents: 2)) == .queued)
            }
            _ = try await rig.runner.drain(for: .seconds(60))
            #expect(try rig.store.notes().sorted() == ["e 1", "w 2"])
        }
    }

    @Test("H24 a handler that fails on its signal is called again with it; the next signal waits")
    func retried() throws {
        try withRig(Self.handlers) { rig in
            let id = try rig.store.step { try $0.bind(Paid(order: "r").durable, key: "r") }
            let outcome = try rig.store.step { try $0.signal("r", Charge(cents: -1)) }
            guard case .retrying = outcome else { return #expect(Bool(false), "\(outcome as Any)") }
            #expect(try rig.store.step { try $0.signal("r", Charge(cents: 7)) } == nil)
            try rig.runWhenDue(id)
            #expect(try rig.store.notes() == ["r -1"])
            try rig.store.step { _ = try $0.bind(Paid(order: "r").durable, key: "r") }
            try rig.runner.runDue()
            #expect(try rig.store.notes() == ["r -1", "r 7"])
        }
    }

    @Test(
        "H24 a value of another type quarantines the handler, with what was sent; a handler that takes no signals refuses them"
    )
    func wrongType() throws {
        try withRig(Self.handlers) { rig in
            let id = try rig.store.step { try $0.bind(Paid(order: "x").durable, key: "x") }
            let outcome = try rig.store.step { try $0.signal("x", "five cents") }
            guard case .quarantined(let reason) = outcome else {
                return #expect(Bool(false), "\(outcome as Any)")
            }
            #expect(reason.contains("the value of the signal is no Charge"), "\(reason)")
            let input = try rig.store.texts("SELECT input FROM handler")
            #expect(input == [#"{"value":"five cents"}"#])
            // A program that can read it may be given the row again.
            try rig.store.step { try $0.requeue(id) }
            try rig.runner.runDue()
            #expect(try rig.status(of: id)?.state == .quarantined)

            try rig.store.step { _ = try $0.bind(Say(name: "s").durable, key: "say") }
            #expect(code { try rig.store.step { try $0.signal("say", 1) } } == .wrongContext)
            #expect(try rig.status(of: id) != nil && waiting(rig) == 0)
            #expect(try rig.store.read { try $0.status(ofKey: "say") }?.state == .pending)
        }
    }

    @Test(
        "H24 a signal that nobody takes expires, and the runner removes it; too many for one key are refused")
    func bounds() throws {
        try withRig(Self.handlers) { rig in
            try rig.store.step { step in
                for number in 0..<1000 { try step.signal("full", number, keptFor: .seconds(60)) }
                try step.signal("other", 1, keptFor: .seconds(60))
                try step.signal("long", 1)
            }
            #expect(code { try rig.store.step { try $0.signal("full", 1) } } == .tooManySignals)
            rig.clock.advance(by: .seconds(60))
            // Those that have expired take no place.
            #expect(try rig.store.step { try $0.signal("full", 1, keptFor: .zero) } == nil)
            #expect(try waiting(rig) == 3)
            try rig.store.step { _ = try $0.bind(Paid(order: "late").durable, key: "other") }
            try rig.runner.runDue()
            #expect(try rig.store.notes().isEmpty && waiting(rig) == 1)
            rig.clock.advance(by: .seconds(7 * 24 * 3600))
            try rig.runner.runDue()
            #expect(try waiting(rig) == 0)
        }
    }

    @Test("H24 a signal to a handler that this program does not know is kept with it")
    func unknown() throws {
        try withFolder { folder in
            let clock = VirtualClock()
            try withRig(folder.file(), Self.handlers, clock: clock) { rig in
                try rig.store.step { _ = try $0.bind(Paid(order: "u").durable, key: "u") }
            }
            try withRig(folder.file(), [Say.self], clock: clock) { rig in
                guard case .parked? = try rig.store.step({ try $0.signal("u", Charge(cents: 3)) }) else {
                    return #expect(Bool(false))
                }
            }
            try withRig(folder.file(), Self.handlers, clock: clock) { rig in
                try rig.runner.runDue()
                #expect(try rig.store.notes() == ["u 3"])
            }
        }
    }
}
