import CPostgres
package import Handlers

/// What a server has to promise before a commit counts as done.
///
/// ```swift
/// let store = try HandlerStore(postgres: "host=pg1,pg2 dbname=bots", registry: .discovered(), durability: .onStandby)
/// ```
public enum PostgresDurability: Sendable {
    /// A commit is on the disk of a second server, too, so that it survives the death of the first. The default.
    case onStandby
    /// A commit is on the disk of the one server. If that dies, commits are lost that others know of.
    case onPrimary
}

/// How a store reaches its database, and what it asks of the server.
package struct PostgresSettings: Sendable {
    /// The oldest server, as libpq counts: pipelines and `in_hot_standby`.
    static let oldestVersion: Int32 = 140_000

    /// How long connecting may take, where the program's string says nothing else.
    static let connectLimit = Duration.seconds(5)

    /// A connection string of libpq.
    let settings: String
    /// What the server has to promise; nil for anything, in tests.
    let durability: PostgresDurability?
    /// How long an answer of the server may take before the connection counts as lost.
    var answerLimit = Duration.seconds(30)
    /// How long a step waits for a database that was there and is away, as while a standby is promoted.
    var outageLimit = Duration.seconds(30)
    /// Whether each step runs a second time, for tests of what it does in memory.
    let runsTwice: Bool
    /// Names the database in messages, without a password.
    let name: String

    package init(
        _ settings: String, durability: PostgresDurability?, runsTwice: Bool = false
    ) throws(HandlerError) {
        self.runsTwice = runsTwice
        self.settings = settings
        self.durability = durability
        var message: UnsafeMutablePointer<CChar>?
        guard let options = PQconninfoParse(settings, &message) else {
            let reason = message.map { String(cString: $0).trimmed } ?? "there is no memory"
            PQfreemem(message)
            throw HandlerError(
                .databaseUnavailable,
                "the connection string of the database cannot be read (\(reason)); write it as 'host=… dbname=…' or 'postgresql://host/dbname'"
            )
        }
        defer { PQconninfoFree(options) }
        var parts: [String: String] = [:]
        var next = options
        while let keyword = next.pointee.keyword {
            if let value = next.pointee.val { parts[String(cString: keyword)] = String(cString: value) }
            next += 1
        }
        let port = parts["port"].map { ":\($0)" } ?? ""
        name = "postgresql://\(parts["host"] ?? "")\(port)/\(parts["dbname"] ?? "")"
    }

    /// Connects.
    ///
    /// - Throws: ``HandlerError`` also for a server that does not keep what it is to promise.
    func connect(isReader: Bool) throws(HandlerError) -> PostgresLink {
        let link: PostgresLink
        do throws(PostgresError) {
            link = try PostgresLink(
                [
                    // What the program's own string may replace. Without these a cut line is noticed after two hours.
                    "connect_timeout": "5", "keepalives_idle": "2", "keepalives_interval": "1",
                    "keepalives_count": "3", "tcp_user_timeout": "5000",
                    "fallback_application_name": "durable-handlers", "dbname": settings,
                    // What it may not replace.
                    "client_encoding": "UTF8",
                ], answerLimit: answerLimit)
        } catch {
            throw error.connectionError(name)
        }
        try prepare(link, isReader: isReader)
        return link
    }
}
