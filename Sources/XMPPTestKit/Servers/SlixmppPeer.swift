import FoundationEssentials
import Glibc
import Synchronization

/// An independent XMPP client (slixmpp, in Python) as a child process, with a log of its own.
///
///     let peer = try SlixmppPeer(
///         script: script, folder: folder, jid: "juliet@example.test/peer", password: "secret",
///         port: server.startTLSPort, trustFile: certificate)
///     try peer.start()
///     defer { peer.close() }
///     try peer.sendMessages(to: "romeo@example.test", count: 100, prefix: "m")
///     let sent = try peer.waitUntilSent(prefix: "m", deadline: .now + .seconds(10))
///     let records = try peer.log()
///
/// It answers requests of the namespace `urn:durable-handlers:sim:0` (see the script) and writes down
/// everything that it sends and receives, so that what we did can be compared with what it saw.
package final class SlixmppPeer: Sendable {
    /// Everything of this peer: script, log, standard error.
    package let folder: String
    private let command: (python: String, arguments: [String])
    private let state = Mutex(State())

    private struct State {
        var process: ChildProcess?
        var fullJID: String?
        /// How many messages each finished sender has sent, by prefix.
        var sent: [String: Int] = [:]
    }

    /// Lays out the folder; starts nothing.
    ///
    /// - Parameters:
    ///   - script: The bytes of `slixmpp_peer.py`.
    ///   - folder: A folder for this peer alone; made if it is missing. A log that it holds is continued.
    ///   - jid: Its account, with a resource if it shall be a certain one.
    ///   - host: The address to connect to; the certificate is verified against the JID's domain.
    ///   - port: The server's STARTTLS port.
    ///   - trustFile: PEM file with the certificate authority to trust.
    ///   - python: The interpreter; nil looks for it as ``locatePython()`` does.
    /// - Throws: ``TestServerError`` when the folder cannot be written.
    package init(
        script: [UInt8], folder: String, jid: String, password: String, host: String = "127.0.0.1",
        port: UInt16,
        trustFile: String, python: String? = nil
    ) throws(TestServerError) {
        self.folder = folder
        let scriptFile = "\(folder)/slixmpp_peer.py"
        command = (
            python ?? Self.locatePython(),
            [
                scriptFile, "--jid", jid, "--password", password, "--host", host, "--port", String(port),
                "--ca", trustFile,
                "--log", "\(folder)/peer.log",
            ]
        )
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            try Data(script).write(to: URL(filePath: scriptFile))
        } catch {
            throw TestServerError(.startFailed, "The peer's folder cannot be written: \(error)")
        }
    }

    /// The full JID that the server gave it; nil before it is ready.
    package var fullJID: String? { state.withLock { $0.fullJID } }
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
                    command.python, command.arguments, input: .pipe, output: .pipe, errors: .file(errorFile))
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

    // MARK: - Control

    /// Tells it to send numbered chat messages with the ids `prefix-1`, `prefix-2`, … and the bodies 1, 2, ….
    ///
    /// - Parameters:
    ///   - to: A bare or full JID.
    ///   - count: How many, at least 0.
    ///   - rate: Messages a second; 0 means as fast as its link takes them.
    ///   - prefix: Without white space, and used once.
    /// - Throws: ``TestServerError`` `wrongState` when it does not run.
    package func sendMessages(to: String, count: Int, rate: Double = 0, prefix: String)
        throws(TestServerError)
    {
        try control("send \(to) \(count) \(rate) \(prefix)")
    }

    /// Gives it a control line of its script's own.
    /// - Throws: ``TestServerError`` `wrongState` when it does not run.
    package func command(_ line: String) throws(TestServerError) { try control(line) }

    /// Tells it to end all sending.
    /// - Throws: ``TestServerError`` `wrongState` when it does not run.
    package func stopSending() throws(TestServerError) { try control("stop") }

    /// Waits until the sender with this prefix has sent everything or was stopped.
    /// - Returns: how many messages it has sent.
    /// - Throws: ``TestServerError`` `wrongState` when the deadline passes or the peer has ended.
    package func waitUntilSent(
        prefix: String, deadline: ContinuousClock.Instant
    ) throws(TestServerError) -> Int {
        while true {
            // The lock is not held while waiting, so that another thread can stop, kill or close.
            let (count, output) = state.withLock { ($0.sent[prefix], $0.process?.output) }
            if let count { return count }
            guard let output else { throw TestServerError(.wrongState, "The peer does not run.") }
            do throws(ChildProcessError) {
                let line = try output.readLine(deadline: deadline) { $0.hasPrefix("sent ") }
                let words = line.split(separator: " ")
                if words.count == 3, let count = Int(words[2]) {
                    state.withLock { $0.sent[String(words[1])] = count }
                }
            } catch {
                throw failure(.wrongState, "has not sent \(prefix)", error)
            }
        }
    }

    /// Sends a control line of a script's own and waits for the line that answers it.
    ///
    /// - Parameter prefix: What that line begins with.
    /// - Returns: The rest of it.
    /// - Throws: ``TestServerError`` `wrongState` when the deadline passes or the peer has ended.
    package func ask(
        _ line: String, answer prefix: String, deadline: ContinuousClock.Instant = .now + .seconds(30)
    ) throws(TestServerError) -> String {
        try control(line)
        do throws(ChildProcessError) {
            let output = state.withLock { $0.process?.output }
            let answer = try output?.readLine(deadline: deadline) { $0.hasPrefix(prefix) }
            return String((answer ?? prefix).dropFirst(prefix.count))
        } catch {
            throw failure(.wrongState, "has not answered '\(line)'", error)
        }
    }

    private func control(_ line: String) throws(TestServerError) {
        try state.withLock { state throws(TestServerError) in
            guard let process = state.process else {
                throw TestServerError(.wrongState, "The peer does not run.")
            }
            do throws(ChildProcessError) {
                try process.write(line + "\n")
            } catch {
                throw failure(.wrongState, "takes no commands", error)
            }
        }
    }

    // MARK: - What it saw

    /// Everything that it has written down, oldest first; also while it runs and after it was killed.
    /// - Throws: `CocoaError` or `DecodingError` when the file is missing or no log of this peer.
    package func log() throws -> [PeerRecord] {
        let decoder = JSONDecoder()
        let data = try Data(contentsOf: URL(filePath: "\(folder)/peer.log"))
        return try data.split(separator: UInt8(ascii: "\n")).map {
            try decoder.decode(PeerRecord.self, from: $0)
        }
    }

    private var errorFile: String { "\(folder)/errors" }

    private func failure(_ code: TestServerError.Code, _ what: String, _ cause: ChildProcessError)
        -> TestServerError
    {
        let words = (try? String(contentsOfFile: errorFile, encoding: .utf8)) ?? ""
        return TestServerError(code, "The slixmpp peer \(what): \(cause.message)\n\(words.suffix(2000))")
    }

    // MARK: - Python

    /// The Python that has slixmpp: `PUSHWAKE_PYTHON`, or `peers/bin/python` in the `.build` above the running program
    /// (where `make setup` puts it) or in that of the current folder, or `python3` on `PATH`.
    package static func locatePython() -> String {
        if let named = getenv("PUSHWAKE_PYTHON") { return String(cString: named) }
        let program = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
        var candidates: [String] = []
        var folder = program[...]
        while let slash = folder.lastIndex(of: "/") {
            folder = folder[..<slash]
            if folder.hasSuffix("/.build") { candidates.append("\(folder)/peers/bin/python") }
        }
        candidates.append("\(FileManager.default.currentDirectoryPath)/.build/peers/bin/python")
        return candidates.first { access($0, X_OK) == 0 } ?? "python3"
    }
}
