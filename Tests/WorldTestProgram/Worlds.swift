import Handlers
import World

/// Worlds with a fault that is built into the library.
enum Worlds {
    /// `world FIRST LAST LIVES [fault=NAME] [trace]`: stops at the first world that is violated.
    static func run() {
        let words = CommandLine.arguments.dropFirst(2)
        let numbers = words.compactMap { UInt64($0) }
        guard numbers.count == 3 else { return print("world FIRST LAST LIVES [fault=NAME] [trace]") }
        if let name = words.first(where: { $0.hasPrefix("fault=") }) {
            guard let fault = BuiltInFault(rawValue: String(name.dropFirst("fault=".count))) else {
                return print("there is no \(name)")
            }
            choose(fault)
        }
        for seed in numbers[0]...numbers[1] {
            let recipe = WorldRecipe(seed: seed, lives: Int(numbers[2]))
            let world = SimulatedWorld(recipe, trace: words.last == "trace")
            world.run()
            for line in world.trace { print(line) }
            print(
                "seed \(seed): \(world.events) events, \(world.lives) lives, \(world.powerLosses) losses of power, \(world.leaks) leaks, \(world.summary), digest \(String(world.digest, radix: 16)) \(world.violation ?? "ok")"
            )
            if world.violation != nil { return }
        }
    }

    private static func choose(_ fault: BuiltInFault?) {
        #if DEBUG || Failpoints
            BuiltInFault.choose(fault)
        #else
            print("built without faults; use a debug build or the trait Failpoints")
        #endif
    }

    // MARK: The table of faults

    /// The lives of each world in the search for a fault.
    private static let livesEach = 40
    private static let longestSentence = 110

    /// `faults [SECONDS] [NAME …]`: prints a row for each fault, with the first seed that shows it and the lives until then.
    static func findFaults() {
        let words = CommandLine.arguments.dropFirst(2)
        let limit = Duration.seconds(words.first.flatMap(Int.init) ?? 60)
        let names = words.filter { Int($0) == nil }
        for fault in BuiltInFault.allCases where names.isEmpty || names.contains(fault.rawValue) {
            choose(fault)
            print("| `\(fault.rawValue)` | \(summary(of: fault)) | \(find(within: limit)) |")
        }
        choose(nil)
    }

    private static func summary(of fault: BuiltInFault) -> String {
        #if DEBUG || Failpoints
            fault.summary
        #else
            ""
        #endif
    }

    /// The last cells of a row: the violation, the seed and the lives.
    private static func find(within limit: Duration) -> String {
        let start = ContinuousClock.now
        var lives = 0
        for seed in UInt64(1)... {
            let world = SimulatedWorld(WorldRecipe(seed: seed, lives: livesEach))
            world.run()
            lives += world.lives
            if let violation = world.violation { return "\(sentence(violation)) | \(seed) | \(lives)" }
            if ContinuousClock.now - start > limit { break }
        }
        return "not found | | \(lives)"
    }

    private static func sentence(_ violation: String) -> String {
        let line = violation.split(separator: "\n", omittingEmptySubsequences: false)[0]
        return line.count > longestSentence ? line.prefix(longestSentence) + "…" : String(line)
    }
}
