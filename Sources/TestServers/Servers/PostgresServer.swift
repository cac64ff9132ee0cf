import FoundationEssentials
import Platform
import Synchronization
import XMPPCore
import XMPPTestKit

/// A real PostgreSQL cluster as child processes, with its own folder, socket and loopback port, and without a system service.
///
/// ```swift
/// let database = try PostgresServer.shared.makeDatabase()  // for most tests: one server a process
///
/// let server = try PostgresServer()  // for a test that kills it
/// try server.start()
/// let standby = try server.makeStandby(name: "second", synchronous: true)
/// server.kill()
/// try standby.promote()
/// ```
///
/// Data and port stay the same across ``close(grace:)``, ``kill()`` and the next ``start(patience:)``. The server ends and its
/// folder is removed with the last reference to this object, and with this process, even by SIGKILL.
package final class PostgresServer: Sendable {
    /// A way to reach the server.
    package enum Route: Hashable, Sendable {
        /// The Unix socket, without a password.
        case socket
        /// TCP on loopback, with a password and without TLS.
        case tcp
        /// TCP on loopback, with a password and TLS, whose certificate is verified.
        case tls(authorityFile: String)
    }

    /// The name of the superuser, the only user.
    package static let user = "postgres"
    /// That user's password.
    package static let password = "correct horse battery staple"

    /// The folder of this server: socket, data, log.
    package let folder: String
    /// The options with which it was made.
    package let options: PostgresOptions
    let installation: PostgresInstallation
    let process: ServerProcess
    let standing: Mutex<Standing>
    /// The number of databases made.
    let databases = Mutex(0)
    let reservedPort: LoopbackPort
    private let folderGuard: FolderGuard

    /// The place of a server among those that replicate.
    struct Standing: Sendable {
        /// The server that this one follows, and its own name there.
        var primary: (connection: String, name: String)?
        /// The names of the standbys that must have a commit before it is acknowledged.
        var synchronousStandbys: [String] = []
        /// How many of these, from the first on; nil for all.
        var awaited: Int?
    }

    /// Makes a new cluster, without starting the server.
    /// - Throws: ``TestServerError`` `notInstalled`, or when the cluster cannot be made.
    package convenience init(options: PostgresOptions = PostgresOptions()) throws(TestServerError) {
        try self.init(options: options, standing: Standing())
        try installation.copy(Self.template.get().dataFolder, to: dataFolder)
    }

    /// A cluster that is never started: a copy of it is made in a tenth of the time that `initdb` takes.
    private static let template = Result { () throws(TestServerError) -> PostgresServer in
        let server = try PostgresServer(options: PostgresOptions(), standing: Standing())
        try server.installation.write(Data("\(password)\n".utf8), to: "\(server.folder)/password")
        try server.installation.run(
            "initdb",
            [
                "--no-sync", "--auth=scram-sha-256", "--pwfile=\(server.folder)/password", "--encoding=UTF8",
                "--locale=C", "--username=\(user)", server.dataFolder,
            ], in: server.folder)
        return server
    }

    /// Makes a folder and reserves a port. The caller makes the data.
    ///
    /// - Parameter port: The port of a server that is dead; nil for a new one.
    init(
        options: PostgresOptions, standing: Standing, port: LoopbackPort? = nil
    ) throws(TestServerError) {
        self.options = options
        self.standing = Mutex(standing)
        installation = try PostgresInstallation()
        if let port { reservedPort = port } else { reservedPort = try .reserved() }
        folder = try installation.makeFolder()
        do { folderGuard = try FolderGuard(folder) } catch {
            throw TestServerError(.startFailed, error.message)
        }
        process = ServerProcess("PostgreSQL", folder: folder)
        if let certificate = options.certificate {
            // A key that other users may read is refused.
            try copy(certificate.certificateFile, to: certificateFile)
            try copy(certificate.keyFile, to: keyFile)
        }
    }

    /// Ends the server without a checkpoint. PostgreSQL then removes its shared memory, and the guard the folder.
    deinit { process.close(Signal.quit, grace: .seconds(10)) }

    // MARK: - Addresses

    /// The port on 127.0.0.1, which is also in the name of the socket.
    package var port: UInt16 { reservedPort.number }
    /// The process id of the postmaster while the server runs.
    package var processID: Int32? { process.processID }
    /// The whole log; empty before the first start.
    package var log: String { (try? String(contentsOfFile: process.console, encoding: .utf8)) ?? "" }
    /// The folder of the cluster (`PGDATA`).
    package var dataFolder: String { "\(folder)/data" }
    var certificateFile: String { "\(folder)/certificate.pem" }
    var keyFile: String { "\(folder)/key.pem" }

    /// Returns the connection string for a database, as libpq takes it.
    package func connection(to database: String = "postgres", over route: Route = .socket) -> String {
        let words = [
            ("dbname", database), ("port", "\(port)"), ("user", Self.user), ("connect_timeout", "10"),
        ]
        let more =
            switch route {
            case .socket: [("host", folder)]
            case .tcp: [("host", "127.0.0.1"), ("password", Self.password), ("sslmode", "disable")]
            case .tls(let authorityFile):
                [
                    ("host", "localhost"), ("hostaddr", "127.0.0.1"), ("password", Self.password),
                    ("sslmode", "verify-full"), ("sslrootcert", authorityFile),
                ]
            }
        return (words + more).map { "\($0.0)=\(Self.quoted($0.1))" }.joined(separator: " ")
    }

    /// A value of a connection string.
    private static func quoted(_ text: String) -> String {
        "'" + text.replacing("\\", with: "\\\\").replacing("'", with: "\\'") + "'"
    }

    // MARK: - Life

    /// Starts the server and waits until it accepts connections, after recovery if it was killed.
    /// - Parameter patience: How long it may do nothing, neither write to its log, nor read files, nor use a processor, until it counts as stuck.
    /// - Throws: ``TestServerError`` `wrongState` when the server runs, or `startFailed` with the end of its log.
    package func start(patience: Duration = .seconds(30)) throws(TestServerError) {
        try process.start { () throws(TestServerError) in
            try writeConfiguration()
            return try process.launch { () throws(ChildProcessError) in
                try installation.start(
                    "postgres", ["-D", dataFolder],
                    variables: options.language.map { ["LANGUAGE": $0] } ?? [:],
                    output: .file(process.console),
                    errors: .file(process.console), lastSignal: "QUIT")
            }
        } wait: { child throws(TestServerError) in
            try process.wait("It is not ready", child, patience: patience, log: { "" }) {
                let lines = postmasterFile
                return lines.count > 7 && lines[0] == "\(child.processID)" && lines[7].hasPrefix("ready")
            }
        }
    }

    /// Stops the server normally: open transactions are rolled back, connections are closed, all data is on disk.
    ///
    /// A server that does not end within the grace period is killed. If the server does not run, nothing happens.
    package func close(grace: Duration = .seconds(30)) {
        // SIGTERM would wait until the clients have left.
        process.close(Signal.interrupt, grace: grace)
    }

    /// Kills all processes of the server, like the death of its machine: its memory is lost, no connection is closed by words.
    package func kill() {
        let lines = postmasterFile
        process.killFamily()
        // A restart of the machine would remove this segment, too.
        if lines.count > 6, let segment = lines[6].split(separator: " ").last {
            let remover = try? ChildProcess("ipcrm", ["-m", String(segment)], errors: .null)
            _ = try? remover?.waitUntilExit(deadline: .now + .seconds(10))
        }
    }

    /// The lines of the file that the postmaster writes about itself: process id, data folder, start time, port, socket folder,
    /// address, shared memory, state.
    private var postmasterFile: [Substring] {
        let text = try? String(contentsOfFile: "\(dataFolder)/postmaster.pid", encoding: .utf8)
        return text?.split(separator: "\n", omittingEmptySubsequences: false) ?? []
    }

    // MARK: - Configuration

    /// Writes the configuration, which a running server reads at its next reload.
    func writeConfiguration() throws(TestServerError) {
        let standing = standing.withLock { $0 }
        let text = options.configuration(
            of: self, standbys: standing.synchronousStandbys, awaited: standing.awaited,
            primary: standing.primary)
        try installation.write(Data(text.utf8), to: "\(dataFolder)/postgresql.conf")
        try installation.write(
            Data(options.authentication.utf8), to: "\(dataFolder)/pg_hba.conf")
    }

    private func copy(_ file: String, to copy: String) throws(TestServerError) {
        var data = Data()
        try ServerProcess.writing { data = try Data(contentsOf: URL(filePath: file)) }
        try installation.write(data, to: copy)
    }
}
