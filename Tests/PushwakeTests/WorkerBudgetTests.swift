import Foundation
import Glibc
@testable import Simulation
import TestSupport
import TestThreads
import Testing
import TestServers

/// A worker is killed when it goes beyond its limits, and what it leaves undone is done by the next.
@Suite(.ownThread, .timeLimit(.minutes(5)))
struct WorkerBudgetTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    /// What it was killed for, and the signal that ended it.
    private func run(
        _ limits: WorkerLimits, _ program: String, _ arguments: [String], in place: MemoryGroup.Place? = nil
    ) throws -> (WorkerBudget.Excess?, signal: Int32?) {
        let budget = try WorkerBudget(limits, [program] + arguments, place: place)
        let ending = try budget.process.waitUntilExit(deadline: .now + .seconds(60))
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

    @Test(
        "W3 time in which others have the processor is not a worker's; time in which it waits for anything else is"
    )
    func waiting() throws {
        // Both on one processor, of which the polite one gets a tenth; less where others are busy there, too.
        let shared = "import os, time; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); "
        let busy = shared + "print('busy', flush=True)\nwhile True: pass"
        let other = try ChildProcess("/usr/bin/python3", ["-c", busy], output: .pipe)
        defer { other.killAndWait() }
        _ = try other.output?.readLine(deadline: .now + .seconds(60)) { $0 == "busy" }
        let polite = shared + "os.nice(10)\nwhile time.process_time() < 0.25: pass"
        let limits = WorkerLimits(time: .seconds(1))
        let budget = try WorkerBudget(limits, ["/usr/bin/python3", "-c", polite])
        let ending = try budget.process.waitUntilExit(deadline: .now + .seconds(120))
        #expect(ending.elapsed > .seconds(2), "nothing was shown")
        #expect(budget.excess == nil && ending.succeeded, "\(ending)")
        let asleep = try run(limits, "/usr/bin/python3", ["-c", shared + "time.sleep(60)"])
        #expect(asleep.0 == .time && asleep.signal == SIGKILL)
    }

    @Test(
        "W3 a worker that ends at its limit by itself is not counted as killed: a process that has ended has no time"
    )
    func ended() throws {
        // The second process has ended, and the first does not ask how.
        let program = "import os, time\npid = os.fork()\nif pid == 0: os._exit(0)\n"
        let known =
            "os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)\nprint(pid, flush=True)\ntime.sleep(60)"
        let parent = try ChildProcess("/usr/bin/python3", ["-c", program + known], output: .pipe)
        let line = try #require(try parent.output?.readLine(deadline: .now + .seconds(60)) { _ in true })
        let child = try #require(Int32(line))
        #expect(ProcessorWait(of: parent.processID) != nil)
        #expect(ProcessorWait(of: child) == nil)
        parent.killAndWait()
        #expect(ProcessorWait(of: parent.processID) == nil)
    }

    /// Pages that are never touched are counted by nobody; these are.
    private static let hungry = "x = bytearray(100 << 20); import time; time.sleep(60)"

    @Test(
        "W3 where control groups can be had, the kernel kills a worker that wants more memory than its limit, and the group goes with it",
        .enabled(if: MemoryGroup.place != nil, "this system lets nobody here make control groups"))
    func controlGroup() throws {
        let place = try #require(MemoryGroup.place)
        let limits = WorkerLimits(mebibytes: 24, time: .seconds(60))
        // The watch would be faster only by luck, so it is given nothing to see.
        var group: MemoryGroup? = try MemoryGroup(in: place, mebibytes: 24)
        let command = try #require(group).entering(["/usr/bin/python3", "-c", Self.hungry])
        let process = try ChildProcess(command[0], Array(command.dropFirst()))
        let ending = try process.waitUntilExit(deadline: .now + .seconds(60))
        #expect(ending.signal == SIGKILL && group?.hasKilled == true)
        let folder = try #require(group?.folder)
        #expect(FileManager.default.fileExists(atPath: folder))
        group = nil
        #expect(!FileManager.default.fileExists(atPath: folder))
        // And together with the watch, whichever comes first.
        let both = try run(limits, "/usr/bin/python3", ["-c", Self.hungry], in: place)
        #expect(both.0 == .memory && both.signal == SIGKILL)
        #expect(limits.means.contains(place.version.rawValue) && limits.means.contains("60 s by a timer"))
    }

    @Test("W3 a control group is looked for where the kernel says this process is, in both of its interfaces")
    func places() {
        let unified = MemoryGroup.find(
            groups: "0::/user.slice/user-1000.slice/app.scope\n",
            mounts: "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n")
        #expect(
            unified == [.init(version: .two, folder: "/sys/fs/cgroup/user.slice/user-1000.slice")])
        let root = MemoryGroup.find(groups: "0::/\n", mounts: "none /cg cgroup2 rw 0 0\n")
        #expect(root == [.init(version: .two, folder: "/cg")])
        let mixed = MemoryGroup.find(
            groups: "4:memory:/jobs/7\n2:cpu,cpuacct:/\n0::/\n",
            mounts: """
                cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu,cpuacct 0 0
                cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0
                cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
                """)
        #expect(
            mixed == [
                .init(version: .two, folder: "/sys/fs/cgroup/unified"),
                .init(version: .one, folder: "/sys/fs/cgroup/memory/jobs/7"),
            ])
        #expect(MemoryGroup.find(groups: "", mounts: "").isEmpty)
    }

    private func simulation(_ limits: WorkerLimits, _ world: any SimulationWorld) throws -> SimulationRun {
        SimulationRun(
            .init(rounds: 3, kills: 3, seed: 17, limits: limits), world: world, folder: folder.path,
            program: try BuiltProduct.path("pushwake"), complain: { print($0) })
    }

    @Test("W3 W6 in a simulation with limits that are kept no worker is killed for them")
    func kept() throws {
        let world = try EmbeddedWorld(folder: folder.path)
        defer { world.close() }
        let verdict = try simulation(WorkerLimits(mebibytes: 32, time: .seconds(30)), world).run { _, _ in }
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
