import Glibc
import XMPPTestKit

// What the world does to a client besides killing it.
extension Simulation {
    private static let restartsEvery = 16

    /// The line breaks under a main that goes on, in one of the ways in which lines break; or, where 16 rounds have
    /// passed, the server restarts.
    func sufferBesideMain(in round: Int) throws {
        if round >= nextRestart {
            nextRestart = round + Self.restartsEvery
            return try restartServer()
        }
        switch Int.random(in: 0..<8, using: &random) {
        case 0, 1:
            // Main connects again by itself, or is gone before it has.
            if try world.suffer(.reset) {
                verdict.faults.resets += 1
                chronicle.noted("reset", "every connection was reset")
            }
            pause(milliseconds: 0...300)
        case 2, 3:
            if try world.suffer(.halfOpen) {
                verdict.faults.halfOpen += 1
                chronicle.noted("half-open", "every connection was left half-open")
            }
            pause(milliseconds: 0...40)
        default: break
        }
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
