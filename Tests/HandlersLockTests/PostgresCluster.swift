import Foundation
import TestServers
import Testing

/// A new PostgreSQL cluster in a folder of its own, with which one backend works that reads its statements from a file.
///
/// The backend runs in single-user mode: it opens no socket, and ends with the file. The folder goes with this object.
final class PostgresCluster {
    /// What became of the statements of a run.
    struct Outcome {
        /// Error messages by the number of the statement in the list.
        var errors: [Int: String] = [:]
        /// How many statements are prepared at the end.
        var prepared = 0
    }

    private let installation: PostgresInstallation
    private let folder: String
    private var data: [String: String] { ["PGDATA": "\(folder)/data"] }

    /// - Throws: When PostgreSQL is not installed, or the cluster cannot be made.
    init() throws {
        installation = try PostgresInstallation()
        folder = try installation.makeFolder()
        try installation.run(
            "initdb", ["--no-sync", "--auth=reject", "--encoding=UTF8", "--locale=C", "--username=postgres"],
            variables: data, in: folder)
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    /// Makes tables, and prepares each statement in a session of its own names.
    ///
    /// - Parameters:
    ///   - schema: The statements that make the tables.
    ///   - statements: In the spelling of PostgreSQL.
    func prepare(_ statements: [String], schema: [String]) throws -> Outcome {
        let script =
            schema + statements.enumerated().map { "PREPARE s\($0) AS \($1)" }
            + ["SELECT count(*) FROM pg_prepared_statements"]
        let written = try installation.run(
            "postgres",
            // A statement ends with a semicolon and an empty line.
            ["--single", "-j", "-c", "log_line_prefix=", "-c", "log_min_messages=error", "postgres"],
            variables: data, input: script.map { $0 + ";\n\n" }.joined(), in: folder)
        var outcome = Outcome()
        var error = ""
        for line in written.errors.split(separator: "\n") {
            if line.hasPrefix("ERROR:") { error = String(line) }
            guard line.hasPrefix("STATEMENT:") else { continue }
            let number = try #require(
                line.firstMatch(of: #/^STATEMENT: +PREPARE s(\d+) AS /#).flatMap { Int($0.1) },
                "\(error) in \(line)")
            outcome.errors[number] = error
        }
        let count = written.output.firstMatch(of: #/count = "(\d+)"/#).flatMap { Int($0.1) }
        outcome.prepared = try #require(count, "\(written.errors)")
        return outcome
    }
}
