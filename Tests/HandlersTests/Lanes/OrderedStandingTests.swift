import HandlersTestKit
import TestSupport
import TestThreads
import Testing

@testable import Handlers

/// Fails while its word says so, on the first attempt.
private struct Ledger: Handler {
    static let id = "lanes.ledger"
    static let retry = RetryPolicy(attempts: 2, firstDelay: .seconds(10))
    func run(_ call: borrowing Call<SignalReceived<String>>) throws {
        if call.value.hasPrefix("late"), call.attempt == 1 { throw Failure() }
        if call.value.hasPrefix("bad") { throw Failure() }
        try call.step.note(call.value)
    }
}

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct OrderedStandingTests {
    private func send(_ rig: Rig, _ values: String...) throws {
        for value in values { try rig.store.step { _ = try $0.signal("ledger", value) } }
    }

    private func bind(_ rig: Rig, ordered: Bool) throws {
        try rig.store.step { try $0.bindStanding(Ledger().durable, key: "ledger", ordered: ordered) }
    }

    private func run(_ rig: Rig, for seconds: Int) throws {
        for _ in 0..<seconds {
            try rig.runner.runDue()
            rig.clock.advance(by: .seconds(1))
        }
        try rig.runner.runDue()
    }

    @Test(
        "H27 calls of an ordered standing handler wait while an earlier one is tried again; without that they pass it",
        .countsInMemory
    )
    func order() throws {
        for isOrdered in [true, false] {
            try withRig([Ledger.self]) { rig in
                try bind(rig, ordered: isOrdered)
                try send(rig, "one", "late two", "three", "late four", "five")
                #expect(try rig.store.notes() == (isOrdered ? ["one"] : ["one", "three", "five"]))
                try run(rig, for: 45)
                let expected =
                    isOrdered
                    ? ["one", "late two", "three", "late four", "five"]
                    : ["one", "three", "five", "late two", "late four"]
                #expect(try rig.store.notes() == expected)
                try send(rig, "six")
                #expect(try rig.store.notes().last == "six")
                #expect(try rig.store.integer("SELECT count(*) FROM lane_entry") == 0)
            }
        }
    }

    @Test("H27 a quarantined call of an ordered standing handler lets the later ones pass")
    func quarantined() throws {
        try withRig([Ledger.self]) { rig in
            try bind(rig, ordered: true)
            try send(rig, "bad one", "two", "three")
            try run(rig, for: 25)
            #expect(try rig.store.notes() == ["two", "three"])
            #expect(try rig.handlers(in: .quarantined).count == 1)
            try send(rig, "four")
            #expect(try rig.store.notes().last == "four")
        }
    }

    @Test("H27 a standing handler that has its key already is ordered from now on, or no longer")
    func changed() throws {
        try withRig([Ledger.self]) { rig in
            try bind(rig, ordered: false)
            try send(rig, "one")
            try bind(rig, ordered: true)
            try send(rig, "late two", "three")
            #expect(try rig.store.notes() == ["one"])
            try run(rig, for: 15)
            #expect(try rig.store.notes() == ["one", "late two", "three"])
            try bind(rig, ordered: false)
            try send(rig, "late four", "five")
            #expect(try rig.store.notes().last == "five")
            #expect(try rig.handlers().filter(\.isStanding).count == 1)
        }
    }

    @Test("H27 a standing handler that replaces an ordered one does not wait for its calls")
    func replaced() throws {
        try withRig([Ledger.self]) { rig in
            try bind(rig, ordered: true)
            try send(rig, "late one", "two")
            try rig.store.step {
                try $0.bindStanding(Ledger().durable, key: "ledger", ifTaken: .replace, ordered: true)
            }
            try send(rig, "three")
            #expect(try rig.store.notes() == ["three"])
            try run(rig, for: 15)
            #expect(try rig.store.notes() == ["three", "late one", "two"])
        }
    }

    @Test("H27 calls that wait run although the standing handler was invalidated, in their order")
    func invalidated() throws {
        try withRig([Ledger.self]) { rig in
            try bind(rig, ordered: true)
            try send(rig, "late one", "two")
            try rig.store.step { _ = try $0.invalidate(key: "ledger", reason: .cancelled) }
            try run(rig, for: 25)
            #expect(try rig.store.notes() == ["late one", "two"])
            #expect(try rig.handlers() == [])
        }
    }
}
