import Handlers
import HandlersTestKit
import World

/// A program of three kinds.
///
/// - `WorldTestProgram SEED`: the tasks of three processes, in the order of a seed. The last process is killed after 20 jobs.
/// - `WorldTestProgram world FIRST LAST LIVES [fault=NAME] [trace]`: worlds from seeds, until one of them is violated.
/// - `WorldTestProgram faults [SECONDS] [NAME …]`: the rows of docs/internals/world-faults.md.
@main enum Program {
    private actor Ledger {
        private(set) var lines: [String] = []
        func add(_ line: String) { lines.append(line) }
    }

    nonisolated(unsafe) private static var log: [String] = []

    private static func work(_ name: String) async {
        let ledger = Ledger()
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<4 {
                group.addTask {
                    await ledger.add("begin \(number)")
                    await ledger.add("end \(number)")
                    log.append("\(name)\(number)")
                }
            }
        }
        log.append("\(name) \(await ledger.lines.count)")
    }

    private static func world() {
        let numbers = CommandLine.arguments.dropFirst(2).compactMap { UInt64($0) }
        let wantsTrace = CommandLine.arguments.last == "trace"
        if let name = CommandLine.arguments.first(where: { $0.hasPrefix("fault=") }) {
            guard let fault = BuiltInFault(rawValue: String(name.dropFirst("fault=".count))) else {
                return print("there is no \(name)")
            }
            BuiltInFault.choose(fault)
        }
        for seed in numbers[0]...numbers[1] {
            let world = SimulatedWorld(seed: seed, trace: wantsTrace)
            world.run(lives: Int(numbers[2]))
            for line in world.trace { print(line) }
            print(
                "seed \(seed): \(world.events) events, \(world.lives) lives, \(world.powerLosses) losses of power, \(world.leaks) leaks, \(world.summary), digest \(String(world.digest, radix: 16)) \(world.violation ?? "ok")"
            )
            if world.violation != nil { return }
        }
    }

    /// The lives of each world in the search for a fault.
    private static let livesEach = 40

    /// Prints a row for each fault: the first seed that shows it, and the lives until then.
    private static func faults() {
        let rest = CommandLine.arguments.dropFirst(2)
        let limit = Duration.seconds(rest.first.flatMap(Int.init) ?? 60)
        let names = rest.filter { Int($0) == nil }
        for fault in BuiltInFault.allCases where names.isEmpty || names.contains(fault.rawValue) {
            BuiltInFault.choose(fault)
            print("| `\(fault.rawValue)` | \(fault.summary) | \(find(within: limit)) |")
        }
        BuiltInFault.choose(nil)
    }

    private static func find(within limit: Duration) -> String {
        let start = ContinuousClock.now
        var lives = 0
        for seed in UInt64(1)... {
            let world = SimulatedWorld(seed: seed)
            world.run(lives: livesEach)
            lives += world.lives
            if let violation = world.violation { return "\(violation) | \(seed) | \(lives)" }
            if ContinuousClock.now - start > limit { break }
        }
        return "not found | | \(lives)"
    }

    static func main() {
        if CommandLine.arguments.dropFirst().first == "faults" { return faults() }
        if CommandLine.arguments.dropFirst().first == "world" { return world() }
        let seed = CommandLine.arguments.dropFirst().first.flatMap(UInt64.init) ?? 0
        var random = SeededGenerator(seed: seed)
        let tasks = WorldTasks.shared
        let disk = SimulatedDisk(seed: seed)
        let processes = ["a", "b", "c"].map(disk.startProcess)
        for process in processes {
            tasks.current = process
            let name = process.name
            Task.detached { await work(name) }
        }
        tasks.current = nil
        var count = 0
        while let job = tasks.ready.randomElement(using: &random) {
            tasks.run(job)
            count += 1
            if count == 20 { disk.kill(processes[2]) }
        }
        print(log.joined(separator: ", "))
    }
}
