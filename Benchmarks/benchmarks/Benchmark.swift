/// Something that is measured together with what it is compared with.
protocol Benchmark: Sendable {
    /// The names of the lines it gives; each begins with its group and a slash.
    var names: [String] { get }

    /// Measures both sides in turns.
    ///
    /// - Parameter workspace: A folder of its own on the file system of the build.
    func run(in workspace: Workspace) throws -> [Line]
}

/// Why a benchmark could not run.
struct BenchmarkError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
