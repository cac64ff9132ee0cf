import CFloor
import Glibc

/// Whether the floor in C does the work that our store does, by the statements that SQLite saw from both.
enum StatementComparison {
    /// - Throws: ``BenchmarkError`` with the statements when they differ: then the floor needs the store's new ones.
    static func check(in workspace: Workspace) throws {
        let ours = try recorded { try OurSteps(workspace.file("traced.db"), pending: 1).step(1) }
        let path = try OurSteps.makeTables(workspace.file("traced-floor.db"))
        let floor = try recorded { try FloorSteps(path, pending: 1).step(1) }
        try compare(settings(in: ours), settings(in: floor), "settings")
        try compare(step(in: ours), step(in: floor), "statements of a step")
    }

    private static func recorded(_ body: () throws -> Void) throws -> [String] {
        floor_trace_begin()
        let result = Result { try body() }
        let text = floor_trace_end()
        defer { free(text) }
        try result.get()
        return text.map { String(cString: $0) }.map { $0.split(separator: "\n").map(String.init) } ?? []
    }

    private static func compare(_ ours: [String], _ floor: [String], _ what: String) throws {
        guard ours != floor else { return }
        throw BenchmarkError(
            """
            the \(what) differ, so Benchmarks/CFloor must follow the store first
              store: \(ours.joined(separator: "; "))
              floor: \(floor.joined(separator: "; "))
            """)
    }

    /// The settings of a connection, without those that only the connection has that makes the file.
    private static func settings(in statements: [String]) -> [String] {
        let ofNewFile = ["PRAGMA application_id", "PRAGMA synchronous = EXTRA"]
        return Set(
            statements.filter { statement in
                statement.hasPrefix("PRAGMA") && statement.contains("=")
                    && !ofNewFile.contains { statement.hasPrefix($0) }
            }
        ).sorted()
    }

    /// What the transaction of the handler ran. Behind its commit the store stores its statistics and is closed, which is no part of a step.
    private static func step(in statements: [String]) -> [String] {
        guard let effect = statements.lastIndex(where: { $0.hasPrefix("UPDATE effect") }),
            let begin = statements[..<effect].lastIndex(where: { $0.hasPrefix("BEGIN") })
        else { return [] }
        let end = statements[begin...].firstIndex(of: "COMMIT") ?? statements.endIndex - 1
        return Array(statements[begin...end])
    }
}
