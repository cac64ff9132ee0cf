import FoundationEssentials
import Glibc
package import Handlers
import Simulation
import XMPPAccount
import XMPPModules
import XMPPTransport
package import XMPPCore

/// The client of the commands `login`, `send`, `listen`, `roster` and `join`: an account of a messenger, and its store.
package struct Client {

    let account: Account
    let store: HandlerStore

    init(_ arguments: Arguments) throws {
        var configuration = try ConnectionOptions(arguments, role: .main).configuration
        configuration.modules = .standard
        let path = try arguments.value("--store") ?? Self.usualStore(of: configuration.jid)
        store = try HandlerStore(
            path: path, registry: HandlerRegistry(), schemas: Account.schemas + [ClientApp.schema])
        account = try Account(configuration, store: store)
    }

    /// Returns the default path of the account's store.
    private static func usualStore(of jid: JID) throws -> String {
        guard let parent = folder(in: "XDG_STATE_HOME") ?? folder(in: "HOME").map({ $0 + "/.local/state" })
        else { throw UsageError("there is no home folder; name the file of the store with --store") }
        let folder = parent + "/pushwake"
        do {
            try FileManager.default.createDirectory(
                atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        } catch {
            throw CommandFailure(
                "the folder \(folder) cannot be made; let this user write there, or name the file of the store with --store"
            )
        }
        return "\(folder)/\(jid.bare).db"
    }

    /// Returns a folder from an environment variable. An empty or relative path does not count (XDG Base Directory Specification).
    private static func folder(in variable: String) -> String? {
        getenv(variable).map { String(cString: $0) }.flatMap { $0.hasPrefix("/") ? $0 : nil }
    }

    /// Connects, and waits until all stanzas that the server had stored have arrived.
    ///
    /// - Parameter retrying: Whether to retry failed attempts, for a command that keeps running.
    func connect(retrying: Bool = false) async throws {
        try await account.listen(as: "client", ClientApp.Received().durable)
        do {
            try await account.connect(retrying: retrying)
        } catch { throw Self.advised(error, account) }
        try await account.caughtUp()
    }

    /// Returns the error, with a hint if the port may be the wrong one.
    static func advised(_ error: any Error, _ account: Account) -> any Error {
        guard let failure = error as? TransportError, failure.code == .connectionReset,
            account.configuration.server?.security == .startTLS
        else { return error }
        return CommandFailure("\(failure) Or does this port want --direct-tls?")
    }

    /// Returns whether the server keeps this session when its stream breaks.
    func canResume(in source: borrowing some Readable) throws -> Bool {
        try source.first("SELECT resumable FROM session WHERE account = ?", account.id) {
            $0.integer(0) != 0
        } ?? false
    }

    /// The address of this session.
    func fullJID(in source: borrowing some Readable) throws -> String? {
        // Several accounts may use one store.
        try source.first("SELECT full_jid FROM session WHERE account = ?", account.id) {
            $0.optionalText(0)
        } ?? nil
    }
}

/// The tables of the client. They contain every message until it was shown.
package enum ClientApp {
    package static let schema = Schema(
        module: "client",
        migrations: [
            """
            CREATE TABLE message(
                row INTEGER PRIMARY KEY,
                peer TEXT NOT NULL,
                nick TEXT,
                own INTEGER NOT NULL,
                sent_at INTEGER NOT NULL,
                body TEXT NOT NULL);
            """,
            // A row stays until it was shown. In earlier versions, only the event recorded that.
            """
            DELETE FROM message WHERE row NOT IN
                (SELECT json_extract(CAST(payload AS TEXT), '$.row') FROM event WHERE name = 'client-stored');
            CREATE INDEX message_peer ON message(peer, row);
            """,
            """
            CREATE TABLE shown_output(
                id INTEGER PRIMARY KEY CHECK (id = 1),
                device INTEGER NOT NULL,
                inode INTEGER NOT NULL,
                size INTEGER NOT NULL);
            """,
        ], handlers: [Received.self])

    /// The event that a message was stored. Another command may be the one to show it.
    struct Stored: DurableEvent {
        static let id = "client-stored"
        var row: Int64
    }

    /// Stores a message.
    struct Received: Handler {
        static let id = "client.received"

        func run(_ call: borrowing Call<MessageReceived>) throws {
            let (message, source) = (call.message, call.context.source)
            guard let body = message.body, message.type != .error else { return }
            let isOwn = source == .carbonSent || message.from?.bare == call.account.configuration.jid
            let peer = isOwn ? message.to : message.from
            let now = call.step.now
            let row =
                try call.step.first(
                    """
                    INSERT INTO message(peer, nick, own, sent_at, body) VALUES (?, ?, ?, ?, ?) RETURNING row
                    """, peer?.bare.description ?? "",
                    message.type == .groupchat ? message.from?.resource : nil, isOwn,
                    call.context.sentAt ?? now, body
                ) { $0.integer(0) } ?? 0
            try call.step.post(Stored(row: row))
        }
    }

    /// A message in the form in which it is shown.
    package struct Line: Codable {
        package var peer: String
        package var nick: String?
        package var own: Bool
        package var time: String
        package var body: String

        /// The message as text. Further lines of the body are indented, so that no body looks like another message.
        package var text: VisibleText {
            let name = nick.map { "\(peer) \($0)" } ?? peer
            return
                "\(time.prefix(16)) \(own ? "to \(peer)" : name): \(VisibleText(joining: lines, by: "\n    "))"
        }

        /// Splits by bytes: for Swift, CR LF is one character, which differs from a line feed.
        private var lines: [VisibleText] {
            body.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map {
                "\(Substring($0.last == UInt8(ascii: "\r") ? $0.dropLast() : $0))"
            }
        }
    }

    /// Returns the oldest message that was not shown, of one address or of all addresses.
    static func next(of peer: JID?, in source: borrowing some Readable) throws -> (row: Int64, line: Line)? {
        let condition = peer == nil ? "" : "WHERE peer = ?"
        let sql = "SELECT row, peer, nick, own, sent_at, body FROM message \(condition) ORDER BY row LIMIT 1"
        func read(_ row: borrowing Row) -> (row: Int64, line: Line) {
            let line = Line(
                peer: row.text(1), nick: row.optionalText(2), own: row.integer(3) != 0,
                time: row.timestamp(4).description, body: row.text(5))
            return (row.integer(0), line)
        }
        guard let peer else { return try source.first(sql) { read($0) } }
        return try source.first(sql, peer.bare.description) { read($0) }
    }

    static func recordShown(_ row: Int64, in step: borrowing Step) throws {
        try step.execute("DELETE FROM message WHERE row = ?", row)
    }
}

extension Client {
    /// Shows the stored messages and all later ones, without an end.
    ///
    /// Each message is shown once. If the process is killed after it has shown a message and before it has stored that, the message
    /// is shown again. The exception is standard output that is appended to a file without other writers: the line is found in that
    /// file.
    ///
    /// - Parameters:
    ///   - peer: The address whose messages are shown. Other messages stay stored.
    ///   - isJSON: Whether to show JSON, one object a line.
    func showMessages(of peer: JID? = nil, isJSON: Bool) async throws {
        var known = try store.step { try OutputEnd.known(in: $0) }
        try showStored(of: peer, isJSON, &known)
        for try await _ in store.events(ClientApp.Stored.self) { try showStored(of: peer, isJSON, &known) }
    }

    /// - Parameter known: The stored end of the output of earlier processes. The first message consumes it.
    private func showStored(of peer: JID?, _ isJSON: Bool, _ known: inout OutputEnd?) throws {
        while let (row, line) = try store.read({ try ClientApp.next(of: peer, in: $0) }) {
            let text = isJSON ? try Self.json(line) : line.text
            let isThere = try known.map { try $0.completes("\(text)\n") } ?? false
            known = nil
            guard isThere || Terminal.say(text) else {
                throw CommandFailure(
                    "standard output could not be written; what was not shown is shown by the next 'pushwake listen'"
                )
            }
            // Shows the message first and marks it then, so that a kill in between repeats the message instead of losing it.
            try store.step { step in
                try ClientApp.recordShown(row, in: step)
                try OutputEnd.current?.store(in: step)
            }
        }
    }

    package static func json(_ value: some Encodable) throws -> VisibleText {
        VisibleText(json: try OneLineJSON.text(value))
    }
}
