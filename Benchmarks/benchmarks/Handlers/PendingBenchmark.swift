import Glibc

/// What a million handlers that wait cost the others, the disk and the memory, beside a thousand.
struct PendingBenchmark: Benchmark {
    private static let few = 1000
    private static let many = 1_000_000
    private static let starts: Int64 = 11
    private static let byteLimit = 500.0

    let names = [
        "handlers/million-pending", "handlers/million-cold-start", "handlers/pending-bytes",
        "handlers/pending-memory",
    ]

    func run(in workspace: Workspace) throws -> [Line] {
        let few = workspace.file("few.db")
        let many = workspace.file("many.db")
        try WaitingSteps.fill(few, pending: Self.few)
        try WaitingSteps.fill(many, pending: Self.many)
        let bytes = Double(try size(many) - size(few)) / Double(Self.many - Self.few)
        let memory = (many: try peak(many), few: try peak(few))
        let start = try coldStarts(few, many)
        return [
            try steps(few, many), start,
            Line(
                names[2], unit: "bytes", better: .less, ours: bytes, reference: Self.byteLimit,
                referenceName: "limit", goal: 1),
            Line(
                names[3], unit: "MiB", better: .less, ours: memory.many, reference: memory.few,
                referenceName: "ours, 1 000 pending", goal: 0.95),
        ]
    }

    private func coldStarts(_ few: String, _ many: String) throws -> Line {
        var times: (few: [Double], many: [Double]) = ([], [])
        for id in Self.starts + 1...5 * Self.starts {
            times.many.append(try ColdStart.ours(many, id))
            times.few.append(try ColdStart.ours(few, id))
        }
        return Line(
            names[1], unit: "ms", better: .less, ours: times.many.median, reference: times.few.median,
            referenceName: "ours, 1 000 pending", goal: 1 / 1.3)
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
