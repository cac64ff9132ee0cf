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

    private let programs: String
    private let folder: URL
    private let launcher: [String]

    /// - Throws: When PostgreSQL is not installed, or the cluster cannot be made.
    init() throws {
        programs = try #require(
            Self.programFolder(), "PostgreSQL is not installed (make setup installs it for the tests)")
        // The system's user postgres may enter no folder of another user.
        let parent = geteuid() == 0 ? URL(filePath: "/tmp") : FileManager.default.temporaryDirectory
        folder = parent.appending(path: "postgres-\(UUID().uuidString)")
        try FileManager.default.createDirectory(
            at: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        // PostgreSQL refuses to run as root.
        if geteuid() == 0 {
            let user = try #require(getpwnam("postgres"), "there is no user postgres to run PostgreSQL as")
            try #require(chown(folder.path, user.pointee.pw_uid, user.pointee.pw_gid) == 0)
            launcher = ["/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]
        } else {
            launcher = ["/usr/bin/env"]
        }
        _ = try run(
            "initdb", ["--no-sync", "--auth=reject", "--encoding=UTF8", "--locale=C", "--username=postgres"])
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    /// Makes tables, and prepares each statement in a session of its own names.
    ///
    /// - Parameters:
    ///   - schema: The statements that make the tables.
    ///   - statements: In the spelling of PostgreSQL.
    func prepare(_ statements: [String], schema: [String]) throws -> Outcome {
        let script =
            schema + statements.enumerated().map { "PREPARE s\($0) AS \($1)" }
            + ["SELECT count(*) FROM pg_prepared_statements"]
        let errors = try run(
            "postgres",
            // A statement ends with a semicolon and an empty line.
            ["--single", "-j", "-c", "log_line_prefix=", "-c", "log_min_messages=error", "postgres"],
            input: script.map { $0 + ";\n\n" }.joined())
        var outcome = Outcome()
        var error = ""
        for line in errors.log.split(separator: "\n") {
            if line.hasPrefix("ERROR:") { error = String(line) }
            guard line.hasPrefix("STATEMENT:") else { continue }
            let number = try #require(
                line.firstMatch(of: #/^STATEMENT: +PREPARE s(\d+) AS /#).flatMap { Int($0.1) },
                "\(error) in \(line)")
            outcome.errors[number] = error
        }
        let count = errors.output.firstMatch(of: #/count = "(\d+)"/#).flatMap { Int($0.1) }
        outcome.prepared = try #require(count, "\(errors.log)")
        return outcome
    }

    private func run(
        _ program: String, _ arguments: [String], input: String = ""
    ) throws -> (output: String, log: String) {
        let (script, output, log) = (path("script"), path("output"), path("log"))
        for file in [output, log] { try? FileManager.default.removeItem(atPath: file) }
        try input.write(toFile: script, atomically: false, encoding: .utf8)
        let data = ["PGDATA": path("data"), "LC_ALL": "C"]
        let child = try ChildProcess(
            launcher[0], launcher.dropFirst() + ["\(programs)/\(program)"] + arguments,
            environment: .inheriting(data), folder: "/", input: .file(script), output: .file(output),
            errors: .file(log))
        let ending = try child.waitUntilExit(deadline: .now + .seconds(120))
        let written = try [output, log].map { try String(contentsOfFile: $0, encoding: .utf8) }
        try #require(ending.succeeded, "\(program) \(ending): \(written[1])")
        return (written[0], written[1])
    }

    private func path(_ name: String) -> String { folder.appending(path: name).path }

    /// The folder with `initdb` and `postgres`. Debian keeps them beside PATH, a folder for each version.
    private static func programFolder() -> String? {
        let debian = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: debian)) ?? []
        let folders =
            versions.compactMap { Int($0) }.sorted().map { "\(debian)/\($0)/bin" }
            + (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map(String.init)
        return folders.first { folder in
            ["initdb", "postgres"].allSatisfy {
                FileManager.default.isExecutableFile(atPath: "\(folder)/\($0)")
            }
        }
    }
}
