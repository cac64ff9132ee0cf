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
    /// What the server has to promise; nil for anything, for a reader and in tests.
    let durability: PostgresDurability?
    /// How long an answer of the server may take before the connection counts as lost.
    var answerLimit = Duration.seconds(30)
    /// How long a step waits for a database that was there and is away, as while a standby is promoted.
    var outageLimit = Duration.seconds(30)
    /// Whether a connection that only reads may be to a standby, which lacks the newest commits.
    var readsStandbys = false
    /// Whether each step runs a second time, for tests of what it does in memory.
    let runsTwice: Bool
    /// Names the database in messages, without a password.
    let name: String

    /// What protects its connections.
    private let security: PostgresSecurity
    /// The clock of the server, which all connections see.
    package var clock = ServerClock()

    package init(
        _ settings: String, durability: PostgresDurability?, runsTwice: Bool = false
    ) throws(HandlerError) {
        self.runsTwice = runsTwice
        self.settings = settings
        self.durability = durability
        var message: UnsafeMutablePointer<CChar>?
        guard let options = PQconninfoParse(settings, &message) else {
            let reason = message.map { Self.masked(String(cString: $0).trimmed) } ?? "there is no memory"
            PQfreemem(message)
            throw Self.unreadable(reason)
        }
        let parts = PostgresOption.values(options)
        guard !Self.hasBareSign(settings) else {
            throw Self.unreadable("in a password @ is written %40, and / is written %2F")
        }
        if let nested = Self.nested(parts) {
            throw Self.unreadable("its \(nested) is a connection string itself, which may hold a password")
        }
        // Of several hosts in a URI libpq says "," where they have no ports.
        let port = parts["port"].map { $0.contains { $0 != "," } ? ":\($0)" : "" } ?? ""
        let service = parts["service"].map { "?service=\($0)" } ?? ""
        name = "postgresql://\(parts["host"] ?? "")\(port)/\(parts["dbname"] ?? "")\(service)"
        security = PostgresSecurity(of: settings, written: parts)
    }

    /// The first setting that holds a connection string. Its text is shown by this library, by libpq and by servers, with the password.
    private static func nested(_ parts: [String: String]) -> String? {
        if parts["dbname"]?.contains("=") == true { return "dbname" }
        return ["dbname", "host", "hostaddr", "port", "user", "service"].first {
            parts[$0]?.contains("://") == true
        }
    }

    private static func unreadable(_ reason: String) -> HandlerError {
        HandlerError(
            .databaseUnavailable,
            "the connection string of the database cannot be read (\(reason)); write it as 'host=… dbname=…' or 'postgresql://host/dbname'"
        )
    }

    /// Whether a URI has an @ that libpq would not take for the end of the password. A part of the password would become the name of the
    /// host or of the database, which are shown.
    private static func hasBareSign(_ settings: String) -> Bool {
        guard settings.hasPrefix("postgres://") || settings.hasPrefix("postgresql://") else { return false }
        let address = settings.drop { $0 != "/" }.dropFirst(2)
        let signs = address.count { $0 == "@" }
        return signs > 1 || signs == 1 && !address.prefix { $0 != "/" }.contains("@")
    }

    /// Returns a message of libpq without what it quotes of the connection string, which may be a part of a password. Single characters
    /// stay; those of libpq come before all that is longer.
    private static func masked(_ message: String) -> String {
        let parts = message.split(separator: "\"", omittingEmptySubsequences: false)
        guard parts.count > 2 else { return message }
        let quotes = stride(from: 1, to: parts.count, by: 2)
        guard let first = quotes.first(where: { parts[$0].count != 1 }) else { return message }
        let rest = first < parts.count - 1 ? parts[parts.count - 1] : ""
        return parts[..<first].joined(separator: "\"") + "\"…\"" + rest
    }

    /// Connects.
    ///
    /// - Throws: ``HandlerError`` also for a server that does not keep what it is to promise.
    func connect(isReader: Bool) throws(HandlerError) -> PostgresLink {
        let link: PostgresLink
        do throws(PostgresError) {
            // What the program's own string may replace. Without these a cut line is noticed after two hours.
            let defaults = [
                PostgresOption("connect_timeout", "5"), PostgresOption("keepalives_idle", "2"),
                PostgresOption("keepalives_interval", "1"), PostgresOption("keepalives_count", "3"),
                PostgresOption("tcp_user_timeout", "5000"),
                PostgresOption("fallback_application_name", "durable-handlers"),
            ]
            // What it may not replace.
            let fixed = [PostgresOption("client_encoding", "UTF8")]
            link = try PostgresLink(
                defaults + security.defaults + [PostgresOption("dbname", settings)] + fixed,
                answerLimit: answerLimit)
        } catch {
            throw error.connectionError(name, verifies: security.verifiesServer)
        }
        try prepare(link, isReader: isReader)
        return link
    }
}
