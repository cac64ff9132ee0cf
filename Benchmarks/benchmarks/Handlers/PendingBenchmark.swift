import Glibc

/// What a million handlers that wait cost the others, the disk and the memory, beside a thousand.
struct PendingBenchmark: Benchmark {
    private static let few = 1000
    private static let many = 1_000_000
    private static let starts: Int64 = 11
    private static let byteLimit = 500.0

    let names = ["handlers/million-pending", "handlers/pending-bytes", "handlers/pending-memory"]

    func run(in workspace: Workspace) throws -> [Line] {
        let few = workspace.file("few.db")
        let many = workspace.file("many.db")
        try WaitingSteps.fill(few, pending: Self.few)
        try WaitingSteps.fill(many, pending: Self.many)
        let bytes = Double(try size(many) - size(few)) / Double(Self.many - Self.few)
        let memory = Line(
            names[2], unit: "MiB", better: .less, ours: try peak(many),
            reference: try peak(few), referenceName: "ours, 1 000 pending", goal: 0.95)
        return [
            try steps(few, many),
            Line(
                names[1], unit: "bytes", better: .less, ours: bytes, reference: Self.byteLimit,
                referenceName: "limit", goal: 1),
            memory,
        ]
    }

    private func peak(_ path: String) throws -> Double {
        try (1...Self.starts).map { try ColdStart.peakMebibytes(path, $0) }.median
    }

    private func size(_ path: String) throws -> Int {
        var status = stat()
        guard stat(path, &status) == 0 else { throw BenchmarkError("the size of \(path) is not known") }
        return Int(status.st_size)
    }

    private func steps(_ few: String, _ many: String) throws -> Line {
        let few = try WaitingSteps(few)
        let many = try WaitingSteps(many)
        let rounds = try Rounds(count: 1) {
            try many.step()
        } reference: {
            try few.step()
        }
        return Line(
            names[0], unit: "steps/s", better: .more, ours: rounds.ours, reference: rounds.reference,
            referenceName: "ours, 1 000 pending", goal: 1 / 1.3)
    }
}
