/// Something that is measured together with what it is compared with.
protocol Benchmark: Sendable {
    /// The names of the lines it gives; each starts with its group and a slash.
    var names: [String] { get }

    /// Where its folder is made.
    var place: String { get }

    /// Measures both sides in turns.
    ///
    /// - Parameter workspace: A folder of its own in ``place``.
    func run(in workspace: Workspace) throws -> [Line]
}

extension Benchmark {
    /// The file system of the build: a commit costs what its disk costs.
    var place: String { ".build" }
}

/// Why a benchmark could not run.
struct BenchmarkError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
