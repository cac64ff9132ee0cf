import FoundationEssentials
import Glibc
import Handlers
import PushwakeCommands
package import World
import XMPPCore

/// `pushwake world`: runs simulated worlds until one has a violation, or all of them have been run.
package struct WorldCommand {
    private let first: WorldRecipe
    /// The number of worlds; nil to run until the time is over.
    private let worlds: Int?
    private let time: Duration?
    /// Whether worlds in which the power cannot fail are skipped.
    private let wantsPowerLosses: Bool
    private let wantsTrace: Bool
    private let report: ReportFile?
    /// The fault that is built into the library in this run; nil for none.
    private let fault: BuiltInFault?
    /// Whether to search for each fault that can be built in.
    private let findsFaults: Bool
    /// The name of this command after `pushwake`.
    let name: String
    /// The additional modules of the worlds' accounts; nil for none.
    private let addition: SimulatedWorld.MakeAddition?

    /// Runs the command of this process, and exits.
    ///
    /// - Parameters:
    ///   - name: The name of the command after `pushwake`.
    ///   - words: The words after the name.
    ///   - addition: Makes the additional modules of each world's account; nil for none.
    package static func main(
        _ name: String = "world", _ words: [String] = Array(CommandLine.arguments.dropFirst()),
        addition: SimulatedWorld.MakeAddition? = nil
    ) -> Never {
        // The order of sets and dictionaries must follow from the seed too, and only a new process can ensure that.
        if getenv("SWIFT_DETERMINISTIC_HASHING") == nil {
            setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
            execv("/proc/self/exe", CommandLine.unsafeArgv)
        }
        SimulatedWorld.prepareProcess()
        do {
            exit(try WorldCommand(words, name: name, addition: addition).run() ? 0 : 1)
        } catch let error as UsageError {
            Terminal.complain("\(error); see 'pushwake help world'")
            exit(64)
        } catch {
            Terminal.complain("\(error)")
            exit(1)
        }
    }

    package init(
        _ words: [String], name: String = "world", addition: SimulatedWorld.MakeAddition? = nil
    ) throws {
        (self.name, self.addition) = (name, addition)
        let arguments = try Arguments(words, of: "world")
        let seed = try arguments.number("--seed", in: 0...Int.max, default: Int.random(in: 0...999_999_999))
        let lives = try arguments.number("--lives", in: 1...100_000, default: 20)
        first = WorldRecipe(
            seed: UInt64(seed), lives: lives, incidents: try arguments.value("--incidents").map(Self.numbers))
        let seconds = try arguments.number("--seconds", in: 1...10_000_000)
        time = seconds.map { .seconds($0) }
        worlds = try arguments.number("--worlds", in: 1...1_000_000_000) ?? (time == nil ? 1 : nil)
        wantsPowerLosses = arguments.has("--power-losses")
        wantsTrace = arguments.has("--trace")
        report = arguments.value("--report").map(ReportFile.init)
        let faultName = arguments.value("--fault")
        findsFaults = faultName == "all"
        fault = try findsFaults ? nil : faultName.map(Self.fault)
    }

    private static func fault(_ name: String) throws(UsageError) -> BuiltInFault {
        guard let fault = BuiltInFault(rawValue: name) else {
            let names = BuiltInFault.allCases.map(\.rawValue).joined(separator: ", ")
            throw UsageError("--fault must be 'all' or one of \(names), not '\(name)'")
        }
        return fault
    }

    /// - Parameter fault: The fault to build in; nil for none.
    private func choose(_ fault: BuiltInFault?) throws {
        #if DEBUG || Failpoints
            BuiltInFault.choose(fault)
        #else
            if fault != nil {
                throw CommandFailure(
                    "this program was built without faults; build it for debugging, or with --traits Failpoints"
                )
            }
        #endif
    }

    /// Parses a list such as `3,17-19`.
    static func numbers(_ text: String) throws(UsageError) -> Set<Int> {
        var numbers: Set<Int> = []
        if text == "none" { return numbers }
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let ends = part.split(separator: "-", omittingEmptySubsequences: false).map { Int($0) }
            guard let first = ends.first ?? nil, let last = ends.last ?? nil, ends.count <= 2,
                first >= 1, first <= last, last < 10_000_000
            else {
                throw UsageError(
                    "--incidents must be 'none' or numbers and ranges of them such as 3,17-19, not '\(text)'")
            }
            numbers.formUnion(first...last)
        }
        return numbers
    }

    /// Returns the shortest list for ``numbers(_:)``.
    static func list(_ numbers: Set<Int>) -> String {
        var ranges: [ClosedRange<Int>] = []
        for number in numbers.sorted() {
            if let range = ranges.last, range.upperBound == number - 1 {
                ranges[ranges.count - 1] = range.lowerBound...number
            } else {
                ranges.append(number...number)
            }
        }
        let parts = ranges.map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)" }
        return parts.isEmpty ? "none" : parts.joined(separator: ",")
    }

    /// Returns the command that repeats a run.
    static func command(_ recipe: WorldRecipe, name: String = "world") -> String {
        let incidents = recipe.incidents.map { " --incidents \(list($0))" } ?? ""
        let fault = BuiltInFault.allCases.first(where: \.isOn).map { " --fault \($0.rawValue)" } ?? ""
        return "pushwake \(name) --seed \(recipe.seed) --lives \(recipe.lives)\(incidents)\(fault)"
    }

    // MARK: Running

    /// - Returns: Whether no world had a violation.
    package func run() throws -> Bool {
        if findsFaults { return try findFaults() }
        try choose(fault)
        let start = ContinuousClock.now
        var totals = WorldTotals()
        var recipe = next(first)
        var lastWorld = run(recipe)
        totals.add(lastWorld)
        while lastWorld.violation == nil, worlds.map({ totals.worlds < $0 }) ?? true,
            time.map({ ContinuousClock.now - start < $0 }) ?? true
        {
            recipe.seed += 1
            recipe = next(recipe)
            lastWorld = run(recipe)
            totals.add(lastWorld)
        }
        Terminal.say(
            "\(totals.summary(ContinuousClock.now - start, isGood: lastWorld.violation == nil))")
        guard lastWorld.violation != nil else {
            try write(lastWorld)
            return true
        }
        Terminal.say(
            "seed \(recipe.seed), event \(lastWorld.events): \(VisibleText(lastWorld.violation ?? ""))")
        try tell(shortened(lastWorld))
        return false
    }

    /// Returns the first recipe from this seed on that is to be run.
    private func next(_ recipe: WorldRecipe) -> WorldRecipe {
        var recipe = recipe
        while wantsPowerLosses, !recipe.canLosePower { recipe.seed += 1 }
        return recipe
    }

    private func run(_ recipe: WorldRecipe) -> SimulatedWorld {
        let world = SimulatedWorld(recipe, trace: wantsTrace || report != nil, addition: addition)
        world.run()
        if wantsTrace, worlds != 1 || time != nil { Terminal.say("seed \(recipe.seed)") }
        if wantsTrace { for line in world.trace { Terminal.say(VisibleText(line)) } }
        return world
    }

    // MARK: Faults that are built in

    /// Prints a row for each fault, with the first seed that shows it and the number of lives until then.
    private func findFaults() throws -> Bool {
        let limit = time ?? .seconds(60)
        var hasAll = true
        for fault in BuiltInFault.allCases where fault.isOfOmemo == (addition != nil) {
            try choose(fault)
            let (start, found) = (ContinuousClock.now, find(until: .now + limit))
            hasAll = hasAll && found != nil
            let seconds = ((ContinuousClock.now - start).milliseconds + 999) / 1000
            let cells = found.map { "\($0.sentence) | \($0.seed) | \($0.lives) | \(seconds) s" }
            Terminal.say(
                "| `\(fault.rawValue)` | \(fault.summary) | \(VisibleText(cells ?? "not found | | |")) |")
        }
        return hasAll
    }

    private func find(until end: ContinuousClock.Instant) -> (sentence: Substring, seed: UInt64, lives: Int)?
    {
        var (recipe, lives) = (first, 0)
        while ContinuousClock.now < end {
            let world = SimulatedWorld(recipe, addition: addition)
            world.run()
            lives += world.lives
            if let violation = world.violation {
                return (violation.split(separator: "\n").first ?? "", recipe.seed, lives)
            }
            recipe.seed += 1
        }
        return nil
    }

    // MARK: Failures

    /// The time limit for shortening a failed run.
    private static let shorteningLimit = Duration.seconds(60)

    /// Repeats a failed run with as few incidents as possible, so that it has the same kind of violation.
    private func shortened(_ failed: SimulatedWorld) -> SimulatedWorld {
        let limit = ContinuousClock.now + Self.shorteningLimit
        let recipe = failed.recipe.shortened(last: failed.lastIncident) { recipe in
            guard ContinuousClock.now < limit else { return nil }
            let world = SimulatedWorld(recipe, addition: addition)
            world.run()
            return world.model.kind == failed.model.kind ? world.lastIncident : nil
        }
        let world = SimulatedWorld(recipe, trace: true, addition: addition)
        world.run()
        return world
    }

    /// The number of the trace's last lines that are shown with a failure.
    private static let shownLines = 40

    private func tell(_ world: SimulatedWorld) throws {
        let count = world.recipe.incidents?.count ?? world.lastIncident
        Terminal.say(
            "shortened to \(Terminal.count(count, "incident")), event \(world.events): \(VisibleText(world.violation ?? ""))"
        )
        for line in world.trace.suffix(Self.shownLines) { Terminal.say("  \(VisibleText(line))") }
        Terminal.say("to repeat it with its whole trace: \(Self.command(world.recipe, name: name)) --trace")
        try write(world)
    }

    private func write(_ world: SimulatedWorld) throws {
        guard let report else { return }
        let page = try worldReport(world, title: Self.command(world.recipe, name: name)).page()
        try report.write(page)
    }
}
