import FoundationEssentials
import Platform
import Synchronization
package import XMPPCore

/// An independent XMPP client (slixmpp, in Python) as a child process, with a log of its own.
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
/// It answers requests of the namespace `urn:durable-handlers:sim:0` and writes down everything that it sends and
/// receives, so that what we did can be compared with what it saw (see `slixmpp_peer.py`). Other scripts on the same
/// `peer.py` can be told other things.
///
/// What awaits something that it prints must be done by one thread at a time.
package final class SlixmppPeer: Sendable {
    /// Everything of this peer: script, log, standard error.
    package let folder: String
    /// The bare address of its account.
    package let account: JID
    private let command: (python: String, arguments: [String])
    private let environment: [String: String]
    let state = Mutex(State())

    struct State {
        var process: ChildProcess?
        var fullJID: String?
        /// The number of messages that each finished sender has sent, by prefix.
        var sent: [String: Int] = [:]
        /// The number of the last question.
        var asked = 0
    }

    /// Lays out the folder; starts nothing.
    ///
    /// - Parameters:
    ///   - script: The bytes of a script on `peer.py`; nil takes `slixmpp_peer.py`.
    ///   - folder: A folder for this peer alone; made if it is missing. A log that it holds is continued.
    ///   - jid: Its account, with a resource if it shall be a certain one.
    ///   - host: The address to connect to; the certificate is verified against the JID's domain.
    ///   - port: The server's STARTTLS port.
    ///   - trustFile: PEM file with the certificate authority to trust.
    ///   - environment: What the script finds in its environment beside what this process has.
    ///   - python: The interpreter; nil looks for it as ``locatePython()`` does.
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
        } catch {
            throw TestServerError(.startFailed, "The peer's folder cannot be written: \(error)")
        }
    }

    /// The full address that the server gave it.
    /// - Throws: ``TestServerError`` `wrongState` before it is ready.
    package var jid: JID {
        get throws(TestServerError) {
            guard let text = state.withLock({ $0.fullJID }), let jid = try? JID(text) else {
                throw TestServerError(.wrongState, "The peer has not been ready yet.")
            }
            return jid
        }
    }
    /// Its process id while it runs.
    package var processID: Int32? {
        state.withLock { $0.process?.isRunning == true ? $0.process?.processID : nil }
    }

    // MARK: - Life

    /// Starts it and waits until it is logged in and has sent its presence.
    /// - Throws: ``TestServerError`` `notInstalled` without Python or slixmpp, `startFailed` with what it
    ///   said, `wrongState` when it runs.
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

    /// Ends it in good order: everything sent has left, the stream is closed.
    /// - Returns: how it ended; nil when it did not run.
    @discardableResult
    package func close(grace: Duration = .seconds(15)) -> ChildEnding? {
        state.withLock { state in
            guard let process = state.process.take() else { return nil }
            process.closeInput()
            if let ending = try? process.waitUntilExit(deadline: .now + grace) { return ending }
            return process.killAndWait()
        }
    }

    /// Ends it by SIGKILL. Its log holds all that it had seen.
    package func kill() {
        state.withLock { state in
            _ = state.process.take()?.killAndWait()
        }
    }

    // MARK: - What it saw

    /// Returns the whole log, oldest first; also while the peer runs and after it was killed.
    ///
    /// A line without its end is not read yet: the kernel may show half of a write that crosses two pages of a file.
    /// - Throws: `CocoaError` or `DecodingError` when the file is missing or no log of this peer.
    package func log() throws -> [PeerRecord] {
        let decoder = JSONDecoder()
        let data = try Data(contentsOf: URL(filePath: "\(folder)/peer.log"))
        return try data.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).dropLast().map
        {
            try decoder.decode(PeerRecord.self, from: $0)
        }
    }

    /// Returns the peer's records of one kind, oldest first.
    /// - Throws: as ``log()``.
    package func records(_ kind: PeerRecord.Kind) throws -> [PeerRecord] {
        try log().filter { $0.kind == kind }
    }

    private var errorFile: String { "\(folder)/errors" }

    func failure(_ code: ErrorCode<TestServerError>, _ what: String, _ cause: some Error) -> TestServerError {
        let words = (try? String(contentsOfFile: errorFile, encoding: .utf8)) ?? ""
        return TestServerError(code, "The slixmpp peer \(what): \(cause)\n\(words.suffix(2000))")
    }

    // MARK: - Python

    /// Returns the Python that has slixmpp: `PUSHWAKE_PYTHON`, or `peers/bin/python` in the `.build` above the running program
    /// (where `make setup` puts it) or in that of the current folder, or `python3` on `PATH`.
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
