import XMPPTestKit
import FoundationEssentials
import Platform

/// A real Prosody as a child process, with its own folder and loopback ports, and without a system service.
///
/// ```swift
/// let server = try ProsodyServer(
///     folder: folder, domain: "example.test", certificateFile: certificate, keyFile: key)
/// try server.addAccount("romeo", password: "secret")
/// try server.start()
/// defer { server.close() }
/// ```
///
/// Data and ports stay the same across ``close()``, ``kill()`` and the next ``start(patience:)``. Prosody ends with this process,
/// and with the last reference to this object.
package final class ProsodyServer: TestServer {
    package let domain: String
    package let folder: String

    private let options: ProsodyOptions
    let certificateFile: String
    let keyFile: String
    package let ports: ServerPorts
    package let process: ServerProcess

    /// Reserves the ports and creates the folder, without starting the server.
    ///
    /// - Parameters:
    ///   - folder: An empty or missing folder, or the folder of an earlier server whose data is kept.
    ///   - domain: The domain of the accounts.
    ///   - certificateFile: PEM file with the certificate for `domain`, and any intermediate ones.
    ///   - keyFile: PEM file with the private key.
    /// - Throws: ``TestServerError`` when there is no free port or the folder cannot be written.
    package init(
        folder: String, domain: String, certificateFile: String, keyFile: String,
        options: ProsodyOptions = ProsodyOptions()
    ) throws(TestServerError) {
        self.folder = folder
        self.domain = domain
        self.certificateFile = certificateFile
        self.keyFile = keyFile
        self.options = options
        process = ServerProcess("Prosody", folder: folder)
        ports = try ServerPorts()
        try ServerProcess.writing {
            // Prosody looks for further certificates in `certs` and complains when the folder is missing.
            for part in ["data", "certs"] {
                try FileManager.default.createDirectory(
                    atPath: "\(folder)/\(part)", withIntermediateDirectories: true)
            }
        }
    }

    /// The configuration file, for `prosodyctl --config`.
    package var configurationFile: String { "\(folder)/prosody.cfg.lua" }
    package var logFile: String { "\(folder)/prosody.log" }

    // MARK: - Life

    package func start(patience: Duration) throws(TestServerError) {
        try process.start { () throws(TestServerError) in
            try ServerProcess.write(options.configuration(of: self), to: configurationFile)
            return try launch()
        } wait: { child throws(TestServerError) in
            // Prosody does not report that it is ready.
            try self.process.waitUntilListening(self.awaitedPorts, child, patience: patience) { self.log }
        }
    }

    // MARK: - Accounts and version

    /// Adds an account with a plain password. Prosody replaces it with salted hashes at the first login.
    package func addAccount(_ user: String, password: String) throws(TestServerError) {
        try store("[\"password\"] = \(ProsodyOptions.quoted(password));", in: "accounts", of: user)
    }

    package func befriend(_ user: String, _ other: String) throws(TestServerError) {
        for (user, other) in [(user, other), (other, user)] {
            let jid = ProsodyOptions.quoted("\(other)@\(domain)")
            try store(
                "[false] = { [\"version\"] = 1; [\"pending\"] = {}; }; [\(jid)] = { [\"subscription\"] = \"both\"; [\"groups\"] = {}; };",
                in: "roster", of: user)
        }
    }

    /// Writes a file of a user in the format of Prosody's internal storage.
    private func store(_ text: String, in kind: String, of user: String) throws(TestServerError) {
        let folder = "\(folder)/data/\(Self.fileName(domain))/\(kind)"
        try ServerProcess.writing {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try Data("return {\n\t\(text)\n};\n".utf8).write(
                to: URL(filePath: "\(folder)/\(Self.fileName(user)).dat"), options: .atomic)
        }
    }

    package var version: String {
        let greeting = "Hello and welcome to Prosody version "
        guard let range = log.ranges(of: greeting).last else { return "prosody" }
        return "prosody " + log[range.upperBound...].prefix { !$0.isWhitespace }
    }

    // MARK: - Parts

    private var awaitedPorts: [LoopbackPort] {
        [ports.startTLS, ports.directTLS] + (options.components.isEmpty ? [] : [ports.component])
            + (options.largestUpload == nil ? [] : [ports.web])
    }

    private func launch() throws(TestServerError) -> ChildProcess {
        try process.launch { () throws(ChildProcessError) in
            try ChildProcess(
                "prosody", ["-F", "--config", configurationFile], output: .file(process.console),
                errors: .file(process.console))
        }
    }

    /// Returns the name that Prosody's internal storage gives a file: all bytes but ASCII letters and digits as %xx.
    private static func fileName(_ text: String) -> String {
        text.utf8.map { byte in
            let character = Character(UnicodeScalar(byte))
            if byte < 0x80, character.isLetter || character.isNumber { return String(character) }
            return "%" + [byte].hexadecimal
        }.joined()
    }
}
