import Handlers
import World

/// Worlds with a fault that is built into the library.
enum Worlds {
    /// `world FIRST LAST LIVES [fault=NAME] [trace]`: stops at the first world that is violated.
    static func run() {
        let numbers = CommandLine.arguments.dropFirst(2).compactMap { UInt64($0) }
        let wantsTrace = CommandLine.arguments.last == "trace"
        guard numbers.count == 3 else { return print("world FIRST LAST LIVES [fault=NAME] [trace]") }
        if let name = CommandLine.arguments.first(where: { $0.hasPrefix("fault=") }) {
            guard let fault = BuiltInFault(rawValue: String(name.dropFirst("fault=".count))) else {
                return print("there is no \(name)")
            }
            BuiltInFault.choose(fault)
        }
        for seed in numbers[0]...numbers[1] {
            let world = SimulatedWorld(WorldRecipe(seed: seed, lives: Int(numbers[2])), trace: wantsTrace)
            world.run()
            for line in world.trace { print(line) }
            print(
                "seed \(seed): \(world.events) events, \(world.lives) lives, \(world.powerLosses) losses of power, \(world.leaks) leaks, \(world.summary), digest \(String(world.digest, radix: 16)) \(world.violation ?? "ok")"
            )
            if world.violation != nil { return }
        }
    }

    // MARK: The table of faults

    /// The lives of each world in the search for a fault.
    private static let livesEach = 40

    /// `faults [SECONDS] [NAME …]`: prints a row for each fault, with the first seed that shows it and the lives until then.
    static func findFaults() {
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
            let world = SimulatedWorld(WorldRecipe(seed: seed, lives: livesEach))
            world.run()
            lives += world.lives
            if let violation = world.violation { return "\(violation) | \(seed) | \(lives)" }
            if ContinuousClock.now - start > limit { break }
        }
        return "not found | | \(lives)"
    }
}
