import FoundationEssentials
import Glibc
import Synchronization

/// A real Prosody as a child process: its own folder, its own loopback ports, no system service.
///
///     let server = try ProsodyServer(
///         folder: folder, domain: "example.test", certificateFile: certificate, keyFile: key)
///     try server.addAccount("romeo", password: "secret")
///     try server.start()
///     defer { server.close() }
///
/// Data and ports stay the same over ``close()``, ``kill()`` and the next ``start(deadline:)``. Prosody dies
/// with this process, and with the last reference to this object.
package final class ProsodyServer: Sendable {
    /// The XMPP domain that it serves; `conference.` and `pubsub.` of it are components.
    package let domain: String
    /// The address on which it listens.
    package let host = "127.0.0.1"
    /// Everything of this server: configuration, data, log.
    package let folder: String

    private let options: ProsodyOptions
    private let certificateFile: String
    private let keyFile: String
    private let ports: (startTLS: LoopbackPort, directTLS: LoopbackPort)
    private let componentPortReservation: LoopbackPort
    private let process = Mutex<ChildProcess?>(nil)

    /// Reserves the ports and lays out the folder; starts nothing.
    ///
    /// - Parameters:
    ///   - folder: An empty or missing folder, or that of an earlier server whose data shall be kept.
    ///   - domain: The domain of the accounts.
    ///   - certificateFile: PEM file with the certificate for `domain`, and any intermediate ones.
    ///   - keyFile: PEM file with its private key.
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
        ports = (try LoopbackPort(), try LoopbackPort())
        componentPortReservation = try LoopbackPort()
        try Self.writing {
            // Prosody looks for further certificates in `certs` and complains when the folder is missing.
            for part in ["data", "certs"] {
                try FileManager.default.createDirectory(
                    atPath: "\(folder)/\(part)", withIntermediateDirectories: true)
            }
        }
    }

    /// The port for STARTTLS (RFC 6120).
    package var startTLSPort: UInt16 { ports.startTLS.number }
    /// The port for direct TLS (XEP-0368).
    package var directTLSPort: UInt16 { ports.directTLS.number }
    /// The port for external components (XEP-0114), of which ``ProsodyOptions/components`` are accepted.
    package var componentPort: UInt16 { componentPortReservation.number }
    /// The configuration file, for `prosodyctl --config`.
    package var configurationFile: String { "\(folder)/prosody.cfg.lua" }
    /// The log file.
    package var logFile: String { "\(folder)/prosody.log" }
    /// Everything that it has logged; empty before the first start.
    package var log: String { (try? String(contentsOfFile: logFile, encoding: .utf8)) ?? "" }
    /// Its process id while it runs.
    package var processID: Int32? { process.withLock { $0?.isRunning == true ? $0?.processID : nil } }

    // MARK: - Life

    /// Starts it and waits until it accepts clients.
    /// - Throws: ``TestServerError`` `notInstalled`, `wrongState` when it runs, `startFailed` with the end
    ///   of its log.
    package func start(deadline: ContinuousClock.Instant = .now + .seconds(30)) throws(TestServerError) {
        try process.withLock { process throws(TestServerError) in
            if let process, process.isRunning { throw TestServerError(.wrongState, "Prosody runs already.") }
            try writeConfiguration()
            let child = try launch()
            process = child
            while !awaitedPorts.allSatisfy(\.isListening) {
                // Prosody has no signal for "ready"; the wait for its end is the pause between two looks.
                let ending = try? child.waitUntilExit(deadline: min(deadline, .now + .milliseconds(10)))
                if let ending { throw failure("It \(ending)") }
                if ContinuousClock.now >= deadline { throw failure("It does not listen yet at the deadline") }
            }
        }
    }

    /// Ends it in good order: streams are closed, archives written.
    ///
    /// A Prosody that does not end within the grace period is killed. Does nothing when it does not run.
    package func close(grace: Duration = .seconds(10)) {
        process.withLock { process in
            _ = process.take()?.terminate(grace: grace)
        }
    }

    /// Ends it by SIGKILL: what it held in memory (sessions to be resumed, unwritten archives) is lost.
    package func kill() {
        process.withLock { process in
            _ = process.take()?.killAndWait()
        }
    }

    /// Freezes it (SIGSTOP): connections stay open and nothing answers, until ``thaw()``.
    package func freeze() { signal(SIGSTOP) }

    /// Lets a frozen server go on.
    package func thaw() { signal(SIGCONT) }

    private func signal(_ signal: Int32) {
        process.withLock { process in
            _ = process?.signal(signal)
        }
    }

    // MARK: - Accounts and version

    /// Makes an account, or gives it a new password; before the start or while it runs.
    ///
    /// - Parameters:
    ///   - user: The local part of the JID, lower case.
    ///   - password: Stored as it is; Prosody replaces it with salted hashes at the first login.
    /// - Throws: ``TestServerError`` when the file cannot be written.
    package func addAccount(_ user: String, password: String) throws(TestServerError) {
        let folder = "\(folder)/data/\(Self.fileName(domain))/accounts"
        let text = "return {\n\t[\"password\"] = \(ProsodyOptions.quoted(password));\n};\n"
        try Self.writing {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try Data(text.utf8).write(
                to: URL(filePath: "\(folder)/\(Self.fileName(user)).dat"), options: .atomic)
        }
    }

    /// Such as `prosody 13.0.1`, as it said itself when it started; `prosody` before the first start.
    package var version: String {
        let greeting = "Hello and welcome to Prosody version "
        guard let range = log.ranges(of: greeting).last else { return "prosody" }
        return "prosody " + log[range.upperBound...].prefix { !$0.isWhitespace }
    }

    // MARK: - Parts

    private var awaitedPorts: [LoopbackPort] {
        [ports.startTLS, ports.directTLS] + (options.components.isEmpty ? [] : [componentPortReservation])
    }

    private func launch() throws(TestServerError) -> ChildProcess {
        do {
            return try ChildProcess(
                "prosody", ["-F", "--config", configurationFile], output: .file("\(folder)/console"),
                errors: .file("\(folder)/console"))
        } catch {
            let code: TestServerError.Code = error.code == .programNotFound ? .notInstalled : .startFailed
            throw TestServerError(
                code, "Prosody could not be started (make setup installs it): \(error.message)")
        }
    }

    private func writeConfiguration() throws(TestServerError) {
        let text = options.configuration(
            domain: domain, folder: folder, certificateFile: certificateFile, keyFile: keyFile,
            startTLSPort: startTLSPort, directTLSPort: directTLSPort, componentPort: componentPort)
        try Self.writing {
            try Data(text.utf8).write(to: URL(filePath: configurationFile), options: .atomic)
        }
    }

    private func failure(_ what: String) -> TestServerError {
        let console = (try? String(contentsOfFile: "\(folder)/console", encoding: .utf8)) ?? ""
        let lines = (console + log).split(separator: "\n").suffix(12).joined(separator: "\n")
        return TestServerError(.startFailed, "Prosody did not start. \(what). Its last words:\n\(lines)")
    }

    private static func writing(_ body: () throws -> Void) throws(TestServerError) {
        do { try body() } catch {
            throw TestServerError(.startFailed, "The server's folder cannot be written: \(error)")
        }
    }

    /// How Prosody's internal storage names a file: all but ASCII letters and digits as %xx.
    private static func fileName(_ text: String) -> String {
        text.utf8.map { byte in
            let character = Character(UnicodeScalar(byte))
            if byte < 0x80, character.isLetter || character.isNumber { return String(character) }
            let digits = String(byte, radix: 16)
            return "%" + (digits.count == 1 ? "0" : "") + digits
        }.joined()
    }
}
