import FoundationEssentials
import TestServers
import TestSupport
import Testing

/// profanity, a client that nobody here wrote, at a pseudo terminal: lines are typed, and its own logs say what it did.
final class ProfanityPeer {
    private let folder: String
    private let environment: [String: String]
    private let user: String
    private var process: ChildProcess?

    /// - Parameters:
    ///   - jid: Its account.
    ///   - port: The server's port for STARTTLS on this machine.
    ///   - authority: The certificate authority to trust.
    init(_ jid: String, password: String, port: UInt16, authority: String, in parent: String) throws {
        folder = parent + "/profanity"
        user = jid
        // Its certificates are those of OpenSSL's default file.
        environment = [
            "HOME": folder, "XDG_DATA_HOME": folder + "/data", "XDG_CONFIG_HOME": folder + "/config",
            "SSL_CERT_FILE": authority, "TERM": "xterm", "LC_ALL": "C.UTF-8", "SHELL": "/bin/sh",
        ]
        try write(
            """
            [peer]
            enabled=true
            jid=\(jid)
            server=127.0.0.1
            port=\(port)
            resource=profanity
            password=\(password)
            tls.policy=force
            last.presence=online
            login.presence=online
            """, to: "data/profanity/accounts")
        try write(
            """
            [ui]
            splash=false
            [logging]
            chlog=true
            rotate=false
            [notifications]
            message=false
            [omemo]
            log=on
            trustmode=blind
            [connection]
            receipts.request=true
            receipts.send=true
            correction.allow=true
            """, to: "config/profanity/profrc")
    }

    private func write(_ text: String, to file: String) throws {
        let url = URL(filePath: "\(folder)/\(file)")
        try FileManager.default.createDirectory(
            at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(text.utf8).write(to: url)
    }

    private var logFile: String { folder + "/profanity.log" }

    /// What it sent, received and did, of all its lives.
    var log: String { (try? String(contentsOfFile: logFile, encoding: .utf8)) ?? "" }

    /// Starts it, and waits until it has logged in.
    func start() async throws {
        let logins = count("logged in successfully")
        // A terminal of 0 columns shows nothing, and a pipe has no size.
        let command = "stty rows 40 cols 120; exec profanity -a peer -l DEBUG -f \(logFile)"
        process = try ChildProcess(
            "script", ["--quiet", "--command", command, "/dev/null"], environment: .inheriting(environment),
            folder: folder, input: .pipe, output: .file(folder + "/screen"))
        try await eventually("profanity has logged in") { self.count("logged in successfully") > logins }
    }

    func stop() { process?.killAndWait() }

    /// Types a line, and waits until it was read.
    func type(_ line: String) async throws {
        let before = count("Input received: \(line)")
        try process?.write(line + "\r")
        try await eventually("profanity has read \(line)") { self.count("Input received: \(line)") > before }
    }

    func count(_ words: String) -> Int { log.components(separatedBy: words).count - 1 }

    /// How many stanzas with all of these words it sent, or received.
    func stanzas(_ direction: Direction, with words: String...) -> Int {
        log.split(separator: "\n").count { line in
            line.contains(direction.rawValue) && words.allSatisfy { line.contains($0) }
        }
    }

    enum Direction: String { case sent = "SENT: ", received = "RECV: " }

    /// The texts of a conversation as it shows them, oldest first, each with who wrote it.
    func conversation(with contact: String) -> [String] {
        let chats = "\(folder)/data/profanity/chatlogs/\(Self.name(user))/\(Self.name(contact))"
        let days = (try? FileManager.default.contentsOfDirectory(atPath: chats)) ?? []
        return days.sorted().flatMap { day -> [String] in
            let text = (try? String(contentsOfFile: "\(chats)/\(day)", encoding: .utf8)) ?? ""
            // A line is `TIME - WHO: TEXT`.
            return text.split(separator: "\n").compactMap { line in
                line.firstRange(of: " - ").map { String(line[$0.upperBound...]) }
            }
        }
    }

    private static func name(_ jid: String) -> String { jid.replacing("@", with: "_at_") }

    /// Takes its OMEMO device away, as when the program is installed again.
    func forgetDevice() throws {
        try FileManager.default.removeItem(atPath: folder + "/data/profanity/omemo")
    }
}
