import FoundationEssentials
import Platform
import Synchronization
package import XMPPCore

/// An independent XMPP client (slixmpp, in Python) as a child process, with its own log.
///
/// ```swift
/// let peer = try SlixmppPeer(
///     folder: folder, jid: JID("juliet@example.test/peer"), password: "secret", port: server.startTLSPort,
///     trustFile: certificate)
/// try peer.start()
/// defer { peer.close() }
/// try peer.sendMessages(to: "romeo@example.test", count: 100, prefix: "m")
/// let sent = try peer.waitUntilSent(prefix: "m", deadline: .now + .seconds(10))
/// let records = try peer.log()
/// ```
///
/// It answers requests of the namespace `urn:durable-handlers:sim:0` and logs everything that it sends and receives. So the work of
/// the tested client can be compared with the peer's view (see `slixmpp_peer.py`). Other scripts on the same `peer.py` have other
/// commands.
///
/// Only one thread at a time may wait for a line of the peer's output.
package final class SlixmppPeer: Sendable {
    /// The folder of this peer: script, log, standard error.
    package let folder: String
    /// The peer's bare address.
    package let account: JID
    private let command: (python: String, arguments: [String])
    private let environment: [String: String]
    let state = Mutex(State())

    struct State {
        var process: ChildProcess?
        var fullJID: String?
        /// The number of messages that each finished sender has sent, by prefix.
        var sent: [String: Int] = [:]
        /// The number of the last command with an answer.
        var asked = 0
    }

    /// Creates the folder without starting the peer.
    ///
    /// - Parameters:
    ///   - script: The bytes of a script that uses `peer.py`; nil for `slixmpp_peer.py`.
    ///   - folder: A folder for this peer only, which is created if it is missing. An existing log is continued.
    ///   - jid: The peer's address, with a resource if a certain one is wanted.
    ///   - host: The address to connect to. The certificate is verified against the JID's domain.
    ///   - port: The server's STARTTLS port.
    ///   - trustFile: PEM file with the certificate authority to trust.
    ///   - environment: Variables of the script in addition to those of this process.
    ///   - python: The interpreter; nil for the result of ``locatePython()``.
    /// - Throws: ``TestServerError`` when the folder cannot be written.
    package init(
        script: [UInt8]? = nil, folder: String, jid: JID, password: String, host: String = "127.0.0.1",
        port: UInt16, trustFile: String, environment: [String: String] = [:], python: String? = nil
    ) throws(TestServerError) {
        self.folder = folder
        account = jid.bare
        self.environment = environment
        command = (
            python ?? Self.locatePython(),
            [
                "-B", "\(folder)/script.py", "--jid", jid.description, "--password", password, "--host", host,
                "--port", String(port), "--ca", trustFile, "--log", "\(folder)/peer.log",
            ]
        )
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            let scripts = [
                "peer.py": PackageResources.peer_py, "script.py": script ?? PackageResources.slixmpp_peer_py,
            ]
            for (name, bytes) in scripts {
                try Data(bytes).write(to: URL(filePath: "\(folder)/\(name)"))
            }
        } catch { throw TestServerError(.startFailed, "The peer's folder cannot be written: \(error)") }
    }

    /// The full address that the server gave the peer.
    /// - Throws: ``TestServerError`` `wrongState` before the peer is ready.
    package var jid: JID {
        get throws(TestServerError) {
            guard let text = state.withLock({ $0.fullJID }), let jid = try? JID(text) else {
                throw TestServerError(.wrongState, "The peer has not been ready yet.")
            }
            return jid
        }
    }
    /// The process id while the peer runs.
    package var processID: Int32? {
        state.withLock { $0.process?.isRunning == true ? $0.process?.processID : nil }
    }

    // MARK: - Life

    /// Starts the peer and waits until it has logged in and has sent its presence.
    /// - Throws: ``TestServerError`` `notInstalled` without Python or slixmpp, `startFailed` with the peer's output, `wrongState`
    ///   when the peer already runs.
    package func start(deadline: ContinuousClock.Instant = .now + .seconds(30)) throws(TestServerError) {
        try state.withLock { state throws(TestServerError) in
            if state.process?.isRunning == true {
                throw TestServerError(.wrongState, "The peer runs already.")
            }
            do throws(ChildProcessError) {
                let process = try ChildProcess(
                    command.python, command.arguments, environment: .inheriting(environment), input: .pipe,
                    output: .pipe, errors: .file(errorFile))
                state.process = process
                let line = try process.output?.readLine(deadline: deadline) { $0.hasPrefix("ready ") }
                state.fullJID = line.map { String($0.dropFirst("ready ".count)) }
            } catch {
                let ending = state.process?.killAndWait()
                state.process = nil
                let missing = error.code == .programNotFound || ending?.status == 4
                throw failure(missing ? .notInstalled : .startFailed, "did not start", error)
            }
        }
    }

    /// Stops the peer normally: everything is sent, and the stream is closed.
    /// - Returns: The ending; nil when the peer did not run.
    @discardableResult
    package func close(grace: Duration = .seconds(15)) -> ChildEnding? {
        state.withLock { state in
            guard let process = state.process.take() else { return nil }
            process.closeInput()
            if let ending = try? process.waitUntilExit(deadline: .now + grace) { return ending }
            return process.killAndWait()
        }
    }

    /// Stops the peer with SIGKILL. Its log contains everything that it had seen.
    package func kill() { state.withLock { _ = $0.process.take()?.killAndWait() } }

    // MARK: - The log

    /// Returns the whole log, oldest first, even while the peer runs and after it was killed.
    ///
    /// A line without its end is skipped: the kernel may show half of a write that crosses two pages of a file.
    /// - Throws: `CocoaError` or `DecodingError` when the file is missing or is not a log of this peer.
    package func log() throws -> [PeerRecord] {
        let decoder = JSONDecoder()
        let data = try Data(contentsOf: URL(filePath: "\(folder)/peer.log"))
        return try data.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).dropLast().map
        {
            try decoder.decode(PeerRecord.self, from: $0)
        }
    }

    /// Returns the peer's records of one kind, oldest first.
    /// - Throws: As ``log()``.
    package func records(_ kind: PeerRecord.Kind) throws -> [PeerRecord] {
        try log().filter { $0.kind == kind }
    }

    private var errorFile: String { "\(folder)/errors" }

    func failure(_ code: ErrorCode<TestServerError>, _ what: String, _ cause: some Error) -> TestServerError {
        let words = (try? String(contentsOfFile: errorFile, encoding: .utf8)) ?? ""
        return TestServerError(code, "The slixmpp peer \(what): \(cause)\n\(words.suffix(2000))")
    }

    // MARK: - Python

    /// Returns the path of a Python with slixmpp.
    ///
    /// It is `PUSHWAKE_PYTHON` if set. Otherwise it is `peers/bin/python` (from `make setup`) in the `.build` folder above the
    /// running program or in the current folder's, or `python3` on `PATH`.
    package static func locatePython() -> String {
        if let named = ThisProcess.environment("PUSHWAKE_PYTHON") { return named }
        let program = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        var candidates: [String] = []
        var folder = program[...]
        while let slash = folder.lastIndex(of: "/") {
            folder = folder[..<slash]
            if folder.hasSuffix("/.build") { candidates.append("\(folder)/peers/bin/python") }
        }
        candidates.append("\(FileManager.default.currentDirectoryPath)/.build/peers/bin/python")
        return candidates.first(where: FileManager.default.isExecutableFile) ?? "python3"
    }
}
