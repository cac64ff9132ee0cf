import FoundationEssentials
import Glibc
package import Handlers
import Simulation
import XMPPAccount
import XMPPModules
import XMPPTransport
package import XMPPCore

/// The client of the commands `login`, `send`, `listen`, `roster` and `join`: an account of a messenger, and its
/// store.
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

    /// Where the account's store is unless said otherwise.
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

    /// A folder that the environment names. An empty or relative name is none (XDG Base Directory Specification).
    private static func folder(in variable: String) -> String? {
        getenv(variable).map { String(cString: $0) }.flatMap { $0.hasPrefix("/") ? $0 : nil }
    }

    /// Connects, and waits until everything that waited at the server has come.
    ///
    /// - Parameter retrying: Whether to go on after an attempt that failed, for a command that stays.
    func connect(retrying: Bool = false) async throws {
        try await account.listen(as: "client", ClientApp.Received().durable)
        do {
            try await account.connect(retrying: retrying)
        } catch {
            throw Self.advised(error, account)
        }
        try await account.caughtUp()
    }

    /// The error, with a hint where the port may be the wrong one.
    static func advised(_ error: any Error, _ account: Account) -> any Error {
        guard let failure = error as? TransportError, failure.code == .connectionReset,
            account.configuration.server?.security == .startTLS
        else { return error }
        return CommandFailure("\(failure) Or does this port want --direct-tls?")
    }

    /// Returns whether the server keeps this session when its stream breaks.
    func canResume(in source: borrowing some Readable) throws -> Bool {
        try source.first("SELECT resumable FROM session WHERE account = ?", account.id) {
            (row) throws(HandlerError) in row.integer(0) != 0
        } ?? false
    }

    /// The address of this session.
    func fullJID(in source: borrowing some Readable) throws -> String? {
        // A store may be used by several accounts.
        try source.first("SELECT full_jid FROM session WHERE account = ?", account.id) {
            (row) throws(HandlerError) in row.optionalText(0)
        } ?? nil
    }
}

/// The tables of the client: every message, until it was shown.
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
            // A row stays until it was shown; before, the event said that alone.
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

    /// Tells that a message was stored, which may be for another command to show.
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
                ) { (row) throws(HandlerError) in row.integer(0) } ?? 0
            try call.step.post(Stored(row: row))
        }
    }

    /// A message as it is shown.
    package struct Line: Codable {
        package var peer: String
        package var nick: String?
        package var own: Bool
        package var time: String
        package var body: String

        package init(peer: String, nick: String?, own: Bool, time: String, body: String) {
            (self.peer, self.nick, self.own, self.time, self.body) = (peer, nick, own, time, body)
        }

        /// The message as text, with further lines of the body indented so that no body looks like another message.
        package var text: VisibleText {
            let name = nick.map { "\(peer) \($0)" } ?? peer
            return
                "\(time.prefix(16)) \(own ? "to \(peer)" : name): \(VisibleText(joining: lines, by: "\n    "))"
        }

        /// By bytes: to Swift the end of a line CR LF is one character, which is no line feed.
        private var lines: [VisibleText] {
            body.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map {
                "\(Substring($0.last == UInt8(ascii: "\r") ? $0.dropLast() : $0))"
            }
        }
    }

    /// The oldest message that was not shown, of one address or of all.
    static func next(of peer: JID?, in source: borrowing some Readable) throws -> (row: Int64, line: Line)? {
        let condition = peer == nil ? "" : "WHERE peer = ?"
        let sql = "SELECT row, peer, nick, own, sent_at, body FROM message \(condition) ORDER BY row LIMIT 1"
        func read(_ row: borrowing Row) -> (row: Int64, line: Line) {
            let line = Line(
                peer: row.text(1), nick: row.optionalText(2), own: row.integer(3) != 0,
                time: row.timestamp(4).description, body: row.text(5))
            return (row.integer(0), line)
        }
        guard let peer else { return try source.first(sql) { (row) throws(HandlerError) in read(row) } }
        return try source.first(sql, peer.bare.description) { (row) throws(HandlerError) in read(row) }
    }

    static func recordShown(_ row: Int64, in step: borrowing Step) throws {
        try step.execute("DELETE FROM message WHERE row = ?", row)
    }
}

extension Client {
    /// Shows the messages that wait and those that come, for ever.
    ///
    /// Each is shown once. A kill between showing one and storing that shows that one again; not where standard output is
    /// appended to a file to which nothing else writes meanwhile, since the line is found there.
    ///
    /// - Parameters:
    ///   - peer: Only those of this address; others stay to be shown later.
    ///   - isJSON: Whether as JSON, one object a line.
    func showMessages(of peer: JID? = nil, isJSON: Bool) async throws {
        var known = try store.step { try OutputEnd.known(in: $0) }
        try showStored(of: peer, isJSON, &known)
        for try await _ in store.events(ClientApp.Stored.self) { try showStored(of: peer, isJSON, &known) }
    }

    /// - Parameter known: Where the output ended that earlier processes stored; taken by the first message.
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
            // Shown, then marked: one that dies in between shows it again rather than never.
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
