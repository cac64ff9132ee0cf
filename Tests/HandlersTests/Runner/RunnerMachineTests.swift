import TestThreads
import Testing

@testable import Handlers

/// All decisions of the runners' machine: what each input changes in each state, and what follows each outcome of each action.
@Suite("The states of the runners of a store", .ownThread, .serialized) struct RunnerMachineTests {
    typealias Machine = RunnerMachine
    typealias RunnerID = RunnerMachine.RunnerID

    /// A state, in which runner 1 serves the scope a, and the inputs that lead to it.
    enum Start: String, CaseIterable, Sendable {
        case stopped, started, waiting, draining, starving, finishing
    }

    static let one = RunnerID(number: 1)
    static let a = HandlerScope("a"), b = HandlerScope("b")

    /// Inputs that come at any time.
    static let inputs: [(name: String, input: Machine.Input)] = [
        ("started", .started(one)),
        ("stopped", .stopped(one)),
        ("finishing", .finishing(one)),
        ("attached", .attached(b, one)),
        ("detached", .detached(a, one)),
        ("drain ended", .drainEnded(one)),
        ("rest", .rest(atMost: nil)),
        ("awake", .awake),
        ("lease taken", .leaseTaken(one)),
        ("lease ended", .leaseEnded(one, isUnsettled: false)),
        ("lease unsettled", .leaseEnded(one, isUnsettled: true)),
        ("marked", .marked([a])),
        ("committed", .committed(new { $0.add(a, wall: time(5)) })),
        ("committed later", .committed(new { $0.add(a, wall: time(90)) })),
        ("committed elsewhere", .committed(new { $0.isAnywhere = true })),
        ("lease lost", .committed(new { $0.isLeaseLost = true })),
        ("placed", .committed(new { $0.placed = 1 })),
        ("places given", .placesGiven),
        ("buried", .wasBuried),
        ("clock set", .clockSet),
    ]

    /// While a runner is started and nothing waits.
    private static let running = [
        "stopped": "wakes: no turn",
        "attached": "wakes: look(b), rests 3600",
        "lease unsettled": "wakes: settle, rests 3600",
        "marked": "wakes: look(a), rests 3600",
        "committed": "wakes: rests 4",
        "committed later": "wakes: rests 60",
        "committed elsewhere": "wakes: cancelLost, survey, look(-), rests 3600",
        "lease lost": "wakes: cancelLost, rests 3600",
        "placed": "recallPlaces, rests 3600",
        "places given": "wakes: recallPlaces, rests 3600",
        "buried": "cancelLost, rests 3600",
        "clock set": "wakes: hasten, rests 3600",
    ]

    /// Whether each input ends the rest, what the next turn does besides recovering, and how long it rests then.
    /// What is not listed does nothing.
    static let table: [Start: [String: String]] = [
        .stopped: [
            "started": "wakes: hasten, look(a, -), prune, rests 3600",
            "stopped": "wakes: no turn",
            "lease unsettled": "wakes: no turn",
            "marked": "wakes: no turn",
            "committed": "wakes: no turn",
            "committed later": "wakes: no turn",
            "committed elsewhere": "wakes: no turn",
            "lease lost": "wakes: no turn",
            "places given": "wakes: no turn",
            "clock set": "wakes: no turn",
        ],
        .started: running,
        .waiting: [
            "stopped": "wakes: no turn",
            "attached": "wakes: look(b), rests 29",
            "awake": "wakes: rests 29",
            "lease unsettled": "wakes: settle, rests 29",
            "marked": "wakes: look(a), rests 3600",
            "committed": "wakes: rests 4",
            "committed elsewhere": "wakes: cancelLost, survey, look(-), rests 29",
            "lease lost": "wakes: cancelLost, rests 29",
            "placed": "recallPlaces, rests 29",
            "places given": "wakes: recallPlaces, rests 29",
            "buried": "cancelLost, rests 29",
            "clock set": "wakes: hasten, rests 29",
        ],
        .draining: [
            "stopped": "wakes: no turn",
            "attached": "wakes: look for drains(a, -, b), rests 3600",
            "drain ended": "look(a, -), rests 3600",
            "lease ended": "wakes: look for drains(a, -), rests 3600",
            "lease unsettled": "wakes: settle, look for drains(a, -), rests 3600",
            "marked": "wakes: look for drains(a, -), rests 3600",
            "committed": "wakes: look for drains(a, -), rests 3600",
            "committed later": "wakes: look for drains(a, -), rests 3600",
            "committed elsewhere": "wakes: cancelLost, survey, look for drains(a, -), rests 3600",
            "lease lost": "wakes: cancelLost, look for drains(a, -), rests 3600",
            "placed": "look for drains(a, -), recallPlaces, rests 3600",
            "places given": "wakes: look for drains(a, -), recallPlaces, rests 3600",
            "buried": "cancelLost, look for drains(a, -), rests 3600",
            "clock set": "wakes: hasten, look for drains(a, -), rests 3600",
        ],
        .starving: running.merging([
            "lease ended": "wakes: look(a), rests 3600",
            "lease unsettled": "wakes: settle, look(a), rests 3600",
        ]) { $1 },
        // Others are called for, and what it runs is waited for.
        .finishing: running,
    ]

    @Test(
        "A1 every input in every state of the runners does what the table says, and nothing else",
        arguments: Start.allCases, inputs.map(\.name))
    func transitions(start: Start, name: String) throws {
        var (machine, turns) = Self.machine(in: start)
        let input = try #require(Self.inputs.first { $0.name == name }).input
        let wakes = machine.handle(input)
        // The turns start with the first runner.
        if machine.generation == turns, start == .stopped, name == "started" { turns = machine.startTurns() }
        let next = Self.turn(&machine, turns)
        var untouched = Self.machine(in: start)
        let unchanged = Self.turn(&untouched.machine, untouched.turns)
        let expected = Self.table[start]?[name] ?? unchanged
        #expect((wakes ? "wakes: " : "") + next == expected)
    }

    // MARK: Outcomes

    /// The inputs after which a turn has every action to do.
    static let everything: [Machine.Input] = [
        .marked([a, b]), .placesGiven, .clockSet, .wasBuried, .leaseEnded(one, isUnsettled: true),
        .committed(new { $0.isAnywhere = true }),
    ]

    /// What a turn does in which an action fails, and what the next one does that succeeds.
    static let failures: [String: String] = [
        "settle": "settle, fail; settle, recover, cancelLost, hasten, survey, look(a, b, -), recallPlaces",
        "recover": "settle, recover, fail; recover, cancelLost, hasten, survey, look(a, b, -), recallPlaces",
        "cancelLost":
            "settle, recover, cancelLost, fail; recover, cancelLost, hasten, survey, look(a, b, -), recallPlaces",
        "hasten":
            "settle, recover, cancelLost, hasten, fail; recover, hasten, survey, look(a, b, -), recallPlaces",
        "survey":
            "settle, recover, cancelLost, hasten, survey, fail; recover, survey, look(a, b, -), recallPlaces",
        "look":
            "settle, recover, cancelLost, hasten, survey, look(a, b, -), fail; recover, look(a, b, -), recallPlaces",
        "recallPlaces":
            "settle, recover, cancelLost, hasten, survey, look(a, b, -), recallPlaces, fail; recover, recallPlaces",
    ]

    @Test(
        "A1 an action that fails as the store does ends the pass, and the next one does what is left",
        arguments: ["settle", "recover", "cancelLost", "hasten", "survey", "look", "recallPlaces"])
    func failed(action: String) throws {
        var (machine, turns) = Self.machine(in: .started)
        for input in Self.everything { _ = machine.handle(input) }
        let failure = HandlerError(.storageFailed, "full")
        let first = try Self.turn(&machine, turns) { $0.hasPrefix(action) ? .failed(failure) : nil }
        #expect(first.rest == .seconds(1), "it pauses after a failure")
        let second = try Self.turn(&machine, turns) { _ in nil }
        let actions = [first, second].map { $0.actions.joined(separator: ", ") }
        #expect(actions.joined(separator: "; ") == Self.failures[action])
    }

    @Test("A1 a scope whose rows fail is looked at alone, and keeps no other scope from its rows")
    func failedAlone() throws {
        var (machine, turns) = Self.machine(in: .started)
        _ = machine.handle(.marked([Self.a, Self.b, HandlerScope("c")]))
        let failure = HandlerError(.sql, "not this one")
        let first = try Self.turn(&machine, turns) {
            $0.contains("b") ? .failed(failure) : nil
        }
        #expect(first.actions == ["recover", "look(a, b, c)", "look(a)", "look(b)", "look(c)", "fail"])
        // Only what failed is looked at again.
        let second = try Self.turn(&machine, turns) { _ in nil }
        #expect(second.actions == ["recover", "look(b)"])
    }

    @Test("A1 a look that ends after some scopes goes on with the others")
    func partly() throws {
        var (machine, turns) = Self.machine(in: .started)
        _ = machine.handle(.marked([Self.a, Self.b]))
        let first = try Self.turn(&machine, turns) { $0 == "look(a, b)" ? .looked([DueTimes()]) : nil }
        #expect(first.actions == ["recover", "look(a, b)", "look(b)"])
    }

    @Test(
        "A1 a pass that goes on after the last runner was closed does nothing more, and so removes no ending")
    func unwanted() throws {
        var (machine, turns) = Self.machine(in: .started)
        _ = machine.handle(.marked([Self.a]))
        // Old endings are looked for once a minute.
        let late = Self.now(61)
        let turn = machine.startTurn(turns)
        var pass = try #require(turn)
        #expect(Self.name(machine.next(&pass, late)) == "recover")
        _ = machine.handle(.stopped(Self.one))
        machine.ended(.recover, .done, &pass, late)
        #expect(Self.name(machine.next(&pass, late)) == "rest")
        let again = machine.startTurn(turns)
        #expect(again == nil)
        // The next runner finds what was left.
        let next = machine.startTurns()
        _ = machine.handle(.started(Self.one))
        #expect(try Self.turn(&machine, next, at: 61) { _ in nil }.actions.contains("look(a, -)"))
    }

    @Test(
        "A1 a turn in which the time of a scope has come looks at that scope, and each minute at old endings")
    func clocks() throws {
        var (machine, turns) = Self.machine(in: .waiting)
        #expect(Self.turn(&machine, turns, at: 29) == "rests 1")
        #expect(Self.turn(&machine, turns, at: 30) == "look(a), rests 3600")
        #expect(Self.turn(&machine, turns, at: 60) == "hasten, prune, rests 3600")
    }

    // MARK: Surveys

    @Test("A1 at most a fifth of the time goes to surveys, and what they find is looked at")
    func surveys() throws {
        var (machine, turns) = Self.machine(in: .started)
        _ = machine.handle(.committed(Self.new { $0.isAnywhere = true }))
        let turn = machine.startTurn(turns)
        var pass = try #require(turn)
        var found = Machine.Survey(wall: [(Self.b, Self.time(50))], connected: [Self.a], hasPlaces: true)
        found.parked = []
        var names: [String] = []
        while true {
            // The survey takes two seconds.
            let now = Self.now(names.contains("survey") ? 3 : 1)
            let action = machine.next(&pass, now)
            names.append(Self.name(action))
            if case .rest(let rest) = action {
                #expect(rest == .seconds(47))
                break
            }
            if case .survey = action {
                machine.ended(action, .surveyed(found), &pass, Self.now(3))
            } else {
                machine.ended(action, Self.outcome(of: action), &pass, now)
            }
        }
        #expect(names == ["recover", "cancelLost", "survey", "look(-, a)", "recallPlaces", "rest"])
        _ = machine.handle(.committed(Self.new { $0.isAnywhere = true }))
        #expect(Self.turn(&machine, turns, at: 10) == "cancelLost, rests 1")
        #expect(Self.turn(&machine, turns, at: 11) == "survey, look(-), rests 39")
    }

    @Test("H7 what older programs have parked is called once a second, by a runner that serves its scope")
    func parked() throws {
        var (machine, turns) = Self.machine(in: .started)
        let parked = [Self.a, Self.b].map {
            Repairs.ParkedCalls(scope: $0, name: "old", version: 1)
        }
        func survey(at seconds: Int) throws -> String {
            _ = machine.handle(.committed(Self.new { $0.isAnywhere = true }))
            return try Self.turn(&machine, turns, at: seconds) {
                $0.hasPrefix("survey") ? .surveyed(.init(parked: parked)) : nil
            }.actions.joined(separator: ", ")
        }
        #expect(try survey(at: 1) == "recover, cancelLost, survey, callParked, look(-)")
        // A clock that stands still: the next second has not come.
        #expect(try survey(at: 1) == "recover, cancelLost, survey(without parked), callParked, look(-)")
        #expect(try survey(at: 2).contains("survey, callParked"))
    }

    // MARK: Drains

    @Test(
        "A1 a drain is answered by a pass that started after it, and an async handler that ended meanwhile makes another"
    )
    func drains() throws {
        var (machine, turns) = Self.machine(in: .started)
        _ = machine.handle(.leaseTaken(Self.one))
        let turn = machine.startTurn(turns)
        var pass = try #require(turn)
        let drain = machine.startDrain(Self.one)
        func isIdle() -> Bool? {
            guard case .passed(let isIdle) = machine.answer(to: drain, of: Self.one) else { return nil }
            return isIdle
        }
        _ = Self.end(pass, of: &machine) { _ in nil }
        #expect(isIdle() == nil, "that pass started before the drain")
        _ = Self.turn(&machine, turns)
        #expect(isIdle() == false, "an async handler runs")
        let second = machine.startTurn(turns)
        pass = try #require(second)
        _ = machine.handle(.leaseEnded(Self.one, isUnsettled: false))
        _ = Self.end(pass, of: &machine) { _ in nil }
        #expect(isIdle() == false, "one has ended during the pass")
        _ = Self.turn(&machine, turns)
        #expect(isIdle() == true)
        let failure = HandlerError(.storageFailed, "full")
        _ = machine.handle(.marked([Self.a]))
        _ = try Self.turn(&machine, turns) { $0.hasPrefix("look") ? .failed(failure) : nil }
        guard case .failed = machine.answer(to: drain, of: Self.one) else {
            Issue.record("the drain learned nothing of the failure")
            return
        }
    }

    // MARK: States

    static func time(_ seconds: Int) -> Timestamp { Timestamp(milliseconds: Int64(seconds) * 1000) }

    static func now(_ seconds: Int) -> Machine.Now {
        .init(wall: time(seconds), monotonic: .seconds(seconds))
    }

    static func new(_ change: (inout NewDue) -> Void) -> NewDue {
        var new = NewDue()
        change(&new)
        return new
    }

    /// A machine that has made a turn at the time 0.
    static func machine(in start: Start, _ traits: Machine.Traits = .init()) -> (machine: Machine, turns: Int)
    {
        var machine = Machine(traits)
        let id = machine.addRunner(leases: 1, keepEndings: .seconds(100))
        _ = machine.handle(.attached(a, id))
        guard start != .stopped else { return (machine, machine.generation) }
        let turns = machine.startTurns()
        _ = machine.handle(.started(id))
        _ = turn(&machine, turns, at: 0)
        switch start {
        case .stopped, .started: break
        case .waiting: _ = machine.handle(.committed(new { $0.add(a, wall: time(30)) }))
        case .draining: _ = machine.startDrain(id)
        case .starving:
            _ = machine.handle(.leaseTaken(id))
            _ = machine.handle(.starved(a, id, isServed: false))
        case .finishing: _ = machine.handle(.finishing(id))
        }
        return (machine, turns)
    }

    /// Makes a turn in which everything succeeds and nothing is found.
    ///
    /// - Returns: Its actions besides `recover`, and the rest after it.
    static func turn(_ machine: inout Machine, _ turns: Int, at seconds: Int = 1) -> String {
        guard let pass = machine.startTurn(turns) else { return "no turn" }
        let turn = end(pass, of: &machine, at: seconds) { _ in nil }
        let actions = turn.actions.filter { $0 != "recover" } + ["rests \(turn.rest.components.seconds)"]
        return actions.joined(separator: ", ")
    }

    /// - Parameter outcome: Returns the outcome of an action; nil for success with nothing found.
    /// - Returns: The actions of the turn, and the rest after it.
    static func turn(
        _ machine: inout Machine, _ turns: Int, at seconds: Int = 1,
        _ outcome: (String) -> Machine.Outcome?
    ) throws -> (actions: [String], rest: Duration) {
        let pass = machine.startTurn(turns)
        return end(try #require(pass), of: &machine, at: seconds, outcome)
    }

    /// Performs what is left of a turn.
    static func end(
        _ pass: Machine.Pass, of machine: inout Machine, at seconds: Int = 1,
        _ outcome: (String) -> Machine.Outcome?
    ) -> (actions: [String], rest: Duration) {
        var pass = pass
        var names: [String] = []
        while true {
            let action = machine.next(&pass, now(seconds))
            if case .rest(let rest) = action { return (names, machine.endTurn(pass, rest: rest)) }
            names.append(name(action))
            if case .fail = action { return (names, machine.endTurn(pass, rest: nil)) }
            machine.ended(action, outcome(name(action)) ?? self.outcome(of: action), &pass, now(seconds))
        }
    }

    /// Success, with nothing found.
    static func outcome(of action: Machine.Action) -> Machine.Outcome {
        switch action {
        case .survey: .surveyed(.init())
        case .look(let scopes, _): .looked(scopes.map { _ in DueTimes() })
        case .findPlaces: .found(false)
        case .recallPlaces: .recalled(rest: nil, isChanged: false)
        case .prune: .pruned(nil)
        default: .done
        }
    }

    static func name(_ action: Machine.Action) -> String {
        switch action {
        case .settle: "settle"
        case .recover: "recover"
        case .cancelLost: "cancelLost"
        case .hasten: "hasten"
        case .survey(let includesParked): includesParked ? "survey" : "survey(without parked)"
        case .look(let scopes, let isCourteous):
            "look\(isCourteous ? "" : " for drains")(\(scopes.map { $0?.rawValue ?? "-" }.joined(separator: ", ")))"
        case .callParked: "callParked"
        case .findPlaces: "findPlaces"
        case .recallPlaces: "recallPlaces"
        case .prune: "prune"
        case .rest: "rest"
        case .fail: "fail"
        }
    }
}
