import FoundationEssentials
import Handlers
import PushwakeCommands
import TestServers
import TestSupport
import Testing
import XMPPAccount
import XMPPCore
import XMPPModules
import XMPPTestKit

/// A Prosody with two accounts, and a store for each.
final class ClientHome: Sendable {
    static let password = "correct horse battery staple"
    let folder: TemporaryFolder
    let server: any TestServer
    private let authorityFile: String

    init() throws {
        folder = try TemporaryFolder()
        let certificates = try TestCertificates(in: folder.path)
        authorityFile = certificates.authorityFile
        let certificate = try certificates.makeServerCertificate(for: ["localhost"])
        server = try ServerKind.prosody.makeServer(
            folder: folder.path + "/server", certificate: certificate)
        for user in ["alice", "bob"] { try server.addAccount(user, password: Self.password) }
        try server.start()
    }

    deinit { server.close(grace: .seconds(5)) }

    /// A command that runs.
    struct Running {
        let process: ChildProcess

        /// The next message that it shows.
        func shown() throws -> String {
            try #require(try process.output?.readLine(deadline: .now + .seconds(30)))
        }

        /// What it has shown beyond that, up to its end.
        func rest() throws -> [String] {
            try (process.output?.readToEnd(deadline: .now + .seconds(30)) ?? "").split(separator: "\n")
                .map(String.init)
        }

        func complains(until words: String) throws {
            _ = try process.errors?.readText(until: words, deadline: .now + .seconds(30))
        }
    }

    func start(
        _ command: String, as user: String, _ words: [String] = [], password: String = ClientHome.password,
        store: String? = nil, port: UInt16? = nil, environment: [String: String] = [:]
    ) throws -> Running {
        Running(
            process: try ChildProcess(
                BuiltProduct.path("pushwake"),
                self.words(command, user, store: "\(folder.path)/\(store ?? user).db", port: port) + words,
                environment: .inheriting(
                    ["PUSHWAKE_PASSWORD": password, "TZ": "UTC"].merging(environment) { $1 }), input: .pipe,
                output: .pipe, errors: .pipe))
    }

    private func words(
        _ command: String, _ user: String, store: String?, port: UInt16? = nil
    ) -> [String] {
        [command, "--jid", "\(user)@localhost"] + (store.map { ["--store", $0] } ?? []) + [
            "--host", "127.0.0.1", "--port", String(port ?? server.startTLSPort), "--ca", authorityFile,
        ]
    }

    /// Lets Alice log in at a terminal without a password, and types.
    ///
    /// - Returns: All that the terminal shows, and at the end how it is set.
    func type(_ text: String, at prompt: String) throws -> String {
        let login = words("login", "alice", store: folder.path + "/typed.db").joined(separator: " ")
        let program = try BuiltProduct.path("pushwake")
        let script = """
            trap : INT; unset PUSHWAKE_PASSWORD; \(program) \(login); echo status $?; stty -a
            """
        let process = try ChildProcess(
            "script", ["--quiet", "--echo", "always", "--command", script, "/dev/null"],
            environment: .inheriting(["SHELL": "/bin/sh"]), input: .pipe, output: .pipe)
        let before = try process.output?.readText(until: prompt, deadline: .now + .seconds(30)) ?? ""
        try process.write(text)
        return try before + (process.output?.readToEnd(deadline: .now + .seconds(30)) ?? "")
    }

    /// A command whose standard output is a file.
    func start(_ command: String, as user: String, outputFile: String) throws -> ChildProcess {
        try ChildProcess(
            BuiltProduct.path("pushwake"), words(command, user, store: "\(folder.path)/\(user).db"),
            environment: .inheriting(["PUSHWAKE_PASSWORD": Self.password, "TZ": "UTC"]),
            output: .file(outputFile),
            errors: .pipe)
    }

    /// The store of a user's commands.
    func clientStore(_ user: String) throws -> HandlerStore {
        try HandlerStore(
            path: "\(folder.path)/\(user).db", registry: HandlerRegistry(),
            schemas: Account.schemas + [ClientApp.schema])
    }

    /// Runs a command of Alice's without a store of the test's choice.
    func runBare(_ command: [String], _ environment: [String: String]) throws -> ProgramEnding {
        let environment = environment.merging(["PUSHWAKE_PASSWORD": Self.password]) { first, _ in first }
        return try ProgramEnding(
            of: "pushwake", words(command[0], "alice", store: nil), environment: environment)
    }

    /// An account of this program on the server.
    func configuration(of user: String) throws -> AccountConfiguration {
        var configuration = AccountConfiguration(
            jid: try JID("\(user)@localhost"), password: Self.password,
            server: .init(host: "127.0.0.1", port: server.startTLSPort, security: .startTLS))
        configuration.trust = .file(path: authorityFile)
        configuration.modules = .standard
        return configuration
    }

    /// Runs a command to its end.
    func run(
        _ command: String, as user: String, _ words: [String] = [], password: String = ClientHome.password,
        store: String? = nil, port: UInt16? = nil
    ) throws -> ProgramEnding {
        try ProgramEnding(
            of: start(command, as: user, words, password: password, store: store, port: port).process)
    }

    func listen(_ user: String, _ words: [String] = []) throws -> Running {
        let running = try start("listen", as: user, words)
        try running.complains(until: "listening as")
        return running
    }
}
