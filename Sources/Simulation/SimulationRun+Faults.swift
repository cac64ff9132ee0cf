import XMPPTestKit

// What the world does to a client besides killing it.
extension SimulationRun {
    private static let restartsEvery = 16

    /// The line breaks under a main that goes on, in one of the ways in which lines break; or, where 16 rounds have
    /// passed, the server restarts.
    func sufferBesideMain(in round: Int) throws {
        if round >= nextRestart {
            nextRestart = round + Self.restartsEvery
            return try restartServer()
        }
        switch Int.random(in: 0..<8, using: &random) {
        case 0, 1: try reset()
        case 2, 3: try strand()
        // However the draws turn out, a run has met each.
        default:
            if verdict.faults.resets == 0 { return try reset() }
            if verdict.faults.halfOpen == 0 { try strand() }
        }
    }

    /// Returns whether a main must be there in the next round for something that the run has not met yet.
    func owesFaults(after round: Int) -> Bool {
        plan.hasFaults
            && (verdict.faults.resets == 0 || verdict.faults.halfOpen == 0 || round + 1 >= nextRestart)
    }

    /// Main connects again by itself, or is gone before it has.
    private func reset() throws {
        if try world.suffer(.reset) {
            verdict.faults.resets += 1
            chronicle.noted("reset", "every connection was reset")
        }
        pause(milliseconds: 0...300)
    }

    private func strand() throws {
        if try world.suffer(.halfOpen) {
            verdict.faults.halfOpen += 1
            chronicle.noted("half-open", "every connection was left half-open")
        }
        pause(milliseconds: 0...40)
    }

    /// The server forgets the session of an account that nobody serves; in a run with faults once in any case.
    func expireSession(in round: Int) throws {
        let isOwed = plan.hasFaults && verdict.faults.expired == 0 && round >= plan.rounds / 2
        guard Int.random(in: 0..<8, using: &random) == 0 || isOwed, try world.expireSession() else { return }
        verdict.faults.expired += 1
        chronicle.noted("expired", "the server forgot the session")
    }

    /// The server restarts while nothing is under way: what a server loses by ending, and what it answers in the place of
    /// a peer that is gone, is not ours to answer for.
    private func restartServer() throws {
        guard let main else { return }
        try closeFlow()
        try main.write("settle\n")
        while let line = try main.output?.readLine(deadline: .now + settleLimit), line != "settled" {}
        if try world.suffer(.restart) {
            verdict.faults.restarts += 1
            chronicle.noted("restart", "the server was restarted")
        }
        try main.write("go on\n")
        try openFlow()
        // Main finds its session gone and binds a new one, unless it is killed before that.
        pause(milliseconds: 0...1500)
    }
}
