import Handlers

/// What a process costs that opens a store, ends one handler and leaves, beside a C program that does the same.
struct ColdStartBenchmark: Benchmark {
    private static let starts = 101
    private static let limitMebibytes = 14.0

    let names = ["handlers/cold-start", "handlers/cold-memory"]

    func run(in workspace: Workspace) throws -> [Line] {
        let ours = workspace.file("ours.db")
        let floor = try OurSteps.makeTables(workspace.file("floor.db"))
        _ = try OurSteps(ours, pending: 2 * Self.starts)
        _ = try FloorSteps(floor, pending: 2 * Self.starts)
        var times: (ours: [Double], floor: [Double]) = ([], [])
        for id in 1...Int64(Self.starts) {
            times.ours.append(try ColdStart.ours(ours, id))
            times.floor.append(try ColdStart.floor(floor, id))
        }
        let memory = try ColdStart.peakMebibytes(ours, Int64(Self.starts) + 1)
        return [
            Line(
                names[0], unit: "ms", better: .less, ours: times.ours.median, reference: times.floor.median,
                referenceName: "C, same statements", goal: 0.5),
            Line(
                names[1], unit: "MiB", better: .less, ours: memory, reference: Self.limitMebibytes,
                referenceName: "limit", goal: 1),
        ]
    }
}
