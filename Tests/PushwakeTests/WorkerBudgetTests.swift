import Glibc
import TestThreads
import Testing
import XMPPTestKit

@testable import pushwake

/// A worker is killed when it goes beyond its limits, and what it leaves undone is done by the next.
@Suite(.ownThread, .timeLimit(.minutes(5)))
struct WorkerBudgetTests {
    private let folder: TestFolder

    init() throws { folder = try TestFolder() }

    /// What it was killed for, and the signal that ended it.
    private func run(
        _ limits: WorkerLimits, _ program: String, _ arguments: [String]
    ) throws -> (WorkerBudget.Excess?, signal: Int32?) {
        let process = try ChildProcess(program, arguments, endsWithParent: false)
        let budget = try WorkerBudget(limits, process)
        let ending = try process.waitUntilExit(deadline: .now + .seconds(60))
        return (budget.excess, ending.signal)
    }

    @Test(
        "W3 a worker is killed for a peak of memory, also one that is over, and for its time; one that keeps to both is not"
    )
    func limits() throws {
        let limits = WorkerLimits(mebibytes: 64, time: .seconds(60))
        let hungry = "x = bytearray(100 << 20); del x; import time; time.sleep(60)"
        let memory = try run(limits, "/usr/bin/python3", ["-c", hungry])
        #expect(memory.0 == .memory && memory.signal == SIGKILL)
        let slow = try run(WorkerLimits(mebibytes: 64, time: .milliseconds(100)), "sleep", ["60"])
        #expect(slow.0 == .time && slow.signal == SIGKILL)
        let modest = try run(limits, "/usr/bin/python3", ["-c", "x = bytearray(10 << 20)"])
        #expect(modest.0 == nil && modest.signal == nil)
    }

    private func simulation(_ limits: WorkerLimits, _ world: any SimulationWorld) throws -> Simulation {
        Simulation(
            .init(rounds: 3, kills: 3, seed: 17, limits: limits), world: world, folder: folder.path,
            program: try BuiltProduct.path("pushwake"))
    }

    @Test("W3 W6 in a simulation with limits that are kept no worker is killed for them")
    func kept() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let verdict = try simulation(WorkerLimits(mebibytes: 500, time: .seconds(30)), world).run { _, _ in }
        #expect(verdict.isGood && verdict.limits.memory == 0 && verdict.limits.time == 0, "\(verdict)")
    }

    @Test("W3 W6 a simulation in which no worker can keep its limits says so instead of going on for ever")
    func impossible() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let simulation = try simulation(WorkerLimits(mebibytes: 1), world)
        #expect {
            try simulation.run { _, _ in }
        } throws: { "\($0)".contains("20 workers in a row were killed at their limits") }
        #expect(simulation.verdict.limits.memory >= 20)
    }
}
