import FoundationEssentials
import Platform
import XMPPCore

/// The PostgreSQL of this machine, and the user whose rights its programs get.
///
/// PostgreSQL refuses to run as root. Then its programs run as the system's user `postgres`, except for clients, which read the
/// files of this process.
package struct PostgresInstallation: Sendable {
    /// The folder of `initdb`, `postgres`, `psql` and `pg_basebackup`.
    private let programs: String
    private let user: String?

    /// Finds the programs. Debian keeps them outside of PATH, in a folder for each version.
    /// - Throws: ``TestServerError`` `notInstalled`.
    package init() throws(TestServerError) {
        let debian = "/usr/lib/postgresql"
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: debian)) ?? []
        let folders =
            versions.compactMap { Int($0) }.sorted().map { "\(debian)/\($0)/bin" }
            + (ThisProcess.environment("PATH") ?? "").split(separator: ":").map(String.init)
        let found = folders.first { folder in
            ["initdb", "postgres", "psql", "pg_basebackup"].allSatisfy {
                FileManager.default.isExecutableFile(atPath: "\(folder)/\($0)")
            }
        }
        guard let found else {
            throw TestServerError(.notInstalled, "PostgreSQL is not installed (make setup installs it).")
        }
        programs = found
        user = ThisProcess.user == 0 ? "postgres" : nil
    }

    // MARK: - Files

    /// Makes a folder for a server and its socket, which only the user of PostgreSQL may enter.
    ///
    /// It is in memory where the environment's folder for temporary files is, else in `/tmp` whatever the environment says: that user may
    /// enter no folder of another user, and the path of a socket has at most 107 bytes.
    package func makeFolder() throws(TestServerError) -> String {
        let temporary = ThisProcess.environment("TMPDIR") ?? ""
        let base = temporary.hasPrefix("/dev/shm/") ? temporary : "/tmp"
        let folder = "\(base)/postgres-\(UUID().uuidString)"
        try ServerProcess.writing {
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: false, attributes: attributes(permissions: 0o700)
            )
        }
        return folder
    }

    /// Writes a file that only the user of PostgreSQL may read.
    func write(_ data: Data, to file: String) throws(TestServerError) {
        try ServerProcess.writing {
            try data.write(to: URL(filePath: file), options: .atomic)
            try FileManager.default.setAttributes(attributes(permissions: 0o600), ofItemAtPath: file)
        }
    }

    /// Copies a folder, with the owner and the permissions of each file.
    func copy(_ folder: String, to copy: String) throws(TestServerError) {
        do {
            let child = try ChildProcess("cp", ["-a", "--", folder, copy], errors: .null)
            guard try child.waitUntilExit(deadline: .now + .seconds(120)).succeeded else {
                throw TestServerError(.startFailed, "\(folder) could not be copied to \(copy)")
            }
        } catch let error as TestServerError {
            throw error
        } catch { throw TestServerError(.startFailed, "\(folder) was not copied: \(error)") }
    }

    private func attributes(permissions: Int) -> [FileAttributeKey: Any] {
        guard let user else { return [.posixPermissions: permissions] }
        return [.posixPermissions: permissions, .ownerAccountName: user, .groupOwnerAccountName: user]
    }

    // MARK: - Programs

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - isClient: Whether it keeps the rights of this process.
    ///   - lastSignal: The name of the signal that the kernel sends to the program when this process ends.
    func start(
        _ program: String, _ arguments: [String], variables: [String: String] = [:], isClient: Bool = false,
        input: ChildProcess.Input = .null, output: ChildProcess.Output, errors: ChildProcess.Output,
        lastSignal: String = "KILL"
    ) throws(ChildProcessError) -> ChildProcess {
        // The kernel forgets the signal when the program gets another user, so one program sets both, in the right order.
        let user = isClient ? nil : user
        let rights = user.map { ["--reuid=\($0)", "--regid=\($0)", "--clear-groups"] } ?? []
        return try ChildProcess(
            "/usr/bin/setpriv",
            rights + ["--pdeathsig", lastSignal, "--", "\(programs)/\(program)"] + arguments,
            environment: .inheriting(variables.merging(["LC_ALL": "C"]) { named, _ in named }), folder: "/",
            input: input, output: output, errors: errors, endsWithParent: false)
    }

    /// Runs a program to its end.
    ///
    /// - Parameters:
    ///   - isClient: Whether it keeps the rights of this process.
    ///   - folder: A folder for files with its input and output, which are removed.
    /// - Returns: What it wrote to its standard output and to its standard error.
    /// - Throws: ``TestServerError`` `refused` with its errors when it fails or does not end within two minutes.
    @discardableResult
    package func run(
        _ program: String, _ arguments: [String], variables: [String: String] = [:], isClient: Bool = false,
        input: String = "", in folder: String
    ) throws(TestServerError) -> (output: String, errors: String) {
        let files = ["input", "output", "errors"].map { "\(folder)/\(program)-\(UUID().uuidString).\($0)" }
        defer { for file in files { try? FileManager.default.removeItem(atPath: file) } }
        try ServerProcess.write(input, to: files[0])
        let ending: ChildEnding
        do {
            let child = try start(
                program, arguments, variables: variables, isClient: isClient, input: .file(files[0]),
                output: .file(files[1]), errors: .file(files[2]))
            ending = try child.waitUntilExit(deadline: .now + .seconds(120))
        } catch { throw TestServerError(.refused, "\(program) did not run: \(error.message)") }
        let written = files.map { (try? String(contentsOfFile: $0, encoding: .utf8)) ?? "" }
        guard ending.succeeded else {
            throw TestServerError(.refused, "\(program) \(ending):\n\(written[2])")
        }
        return (written[1], written[2])
    }
}
