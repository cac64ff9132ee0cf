import Handlers

/// Ends a pending handler, writes its effect and binds the next one, `group` of them in a transaction, beside a C
/// program that executes the same statements on the same schema with the same settings.
struct StepBenchmark: Benchmark {
    enum Side: String {
        case ours
        case reference
    }

    let name: String
    /// How many handlers end in one transaction.
    let group: Int
    let goal: Double
    var place = ".build"

    private static let pending = 1000

    var names: [String] { [name] }

    func run(in workspace: Workspace) throws -> [Line] {
        try StatementComparison.check(in: workspace)
        let ours = try OurSteps(workspace.file("ours.db"), pending: Self.pending)
        let floor = try FloorSteps(OurSteps.makeTables(workspace.file("floor.db")), pending: Self.pending)
        let rounds = try Rounds(count: group) {
            try ours.step(group)
        } reference: {
            try floor.step(group)
        }
        let line = Line(
            name, unit: "steps/s", better: .more, ours: rounds.ours, reference: rounds.reference,
            referenceName: "C, same statements", goal: goal)
        return [line]
    }

    /// Runs one side only.
    func profile(_ side: Side, steps: Int, in workspace: Workspace) throws {
        let path = workspace.file("profile.db")
        let runner: any Steps =
            switch side {
            case .ours: try OurSteps(path, pending: Self.pending)
            case .reference: try FloorSteps(OurSteps.makeTables(path), pending: Self.pending)
            }
        for _ in 0..<steps / group { try runner.step(group) }
    }
}

/// One side of the step benchmarks.
protocol Steps {
    /// Ends the `group` oldest handlers in one transaction.
    func step(_ group: Int) throws
}
