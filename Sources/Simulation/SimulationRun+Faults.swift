import XMPPTestKit

// Faults of the network and the server, as distinct from kills.
extension SimulationRun {
    private static let restartsEvery = 16

    /// Breaks the line under a connected main in one of several ways, or restarts the server every 16 rounds.
    func sufferBesideMain(in round: Int) throws {
        if round >= nextRestart {
            nextRestart = round + Self.restartsEvery
            return try restartServer()
        }
        switch Int.random(in: 0..<8, using: &random) {
        case 0, 1: try reset()
        case 2, 3: try strand()
        // Every run gets each fault at least once, whatever the random numbers are.
        default:
            if verdict.faults.resets == 0 { return try reset() }
            if verdict.faults.halfOpen == 0 { try strand() }
        }
    }

    /// Returns whether main must run in the next round, because a fault has not happened yet.
    func owesFaults(after round: Int) -> Bool {
        plan.hasFaults
            && (verdict.faults.resets == 0 || verdict.faults.halfOpen == 0 || round + 1 >= nextRestart)
    }

    /// Resets the line. Main reconnects by itself, unless it ends before.
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

    /// Makes the server forget the session while no process is connected. It happens at least once in a run with faults.
    func expireSession(in round: Int) throws {
        let isOwed = plan.hasFaults && verdict.faults.expired == 0 && round >= plan.rounds / 2
        guard Int.random(in: 0..<8, using: &random) == 0 || isOwed, try world.expireSession() else { return }
        verdict.faults.expired += 1
        chronicle.noted("expired", "the server forgot the session")
    }

    /// Restarts the server while no stanza is in transit. Otherwise the server may lose stanzas, and answer for an absent peer,
    /// which are not errors of this package.
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
        // Main finds that its session is lost and binds a new one, unless it is killed before that.
        pause(milliseconds: 0...1500)
    }
}
