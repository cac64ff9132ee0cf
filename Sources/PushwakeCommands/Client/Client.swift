import FoundationEssentials
import Glibc
import Handlers
import Synchronization
import XMPPAccount
import XMPPModules
import XMPPTransport
import XMPPCore

/// The client of the commands `login`, `send`, `listen`, `roster` and `join`: an account of a messenger, and its store.
package struct Client {

    let account: Account
    let store: HandlerStore
    private let connection = Connection()

    /// Whether this process has had the stream.
    private final class Connection: Sendable {
        let isMade = Atomic(false)
    }

    var hasConnected: Bool { connection.isMade.load(ordering: .relaxed) }

    init(_ arguments: Arguments) throws {
        var configuration = try ConnectionOptions(arguments, role: .main).configuration
        configuration.modules = Self.modules
        let path = try arguments.value("--store") ?? Self.usualStore(of: configuration.jid)
        store = try HandlerStore(
            path: path, registry: HandlerRegistry(), schemas: Account.schemas + [ClientApp.schema])
        account = try Account(configuration, store: store)
    }

    /// A messenger's modules. The features are those whose messages ``ClientLine`` shows.
    private static var modules: [any AccountModule] {
        let disco = DiscoModule(
            identity: .init(category: "client", type: "console", name: "pushwake"),
            software: (name: "pushwake", version: Pushwake.version),
            features: [Namespaces.correction, Namespaces.retraction, Namespaces.reactions])
        return [disco] + [any AccountModule].standard.filter { !($0 is DiscoModule) }
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
        connection.isMade.store(true, ordering: .relaxed)
        try await account.caughtUp()
    }

    /// Connects, unless another process has the stream. That process then does what is committed to the store.
    ///
    /// - Parameter retrying: Whether to retry what fails otherwise.
    /// - Returns: Whether this process has the stream.
    func connectOrShare(retrying: Bool = false) async throws -> Bool {
        do {
            try await connect()
            return true
        } catch let error as AccountError where error.code == .ownershipHeld {
            return false
        } catch {
            guard retrying else { throw error }
        }
        try await connect(retrying: true)
        return true
    }

    /// Runs a command that ends by itself, and closes the account.
    ///
    /// The session ends with the command, too: the server would otherwise show the account as available until it gives the
    /// session up. A session with messages that the server does not have yet stays, for the next command.
    func finishing<R: Sendable>(_ body: () async throws -> R) async throws -> R {
        let result: Result<R, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        await finish()
        return try result.get()
    }

    func finish() async {
        if hasConnected, (try? await account.perform(hasUnsent)) == false { try? await account.logOut() }
        await account.close()
    }

    private var hasUnsent: @Sendable (borrowing Step) throws -> Bool {
        { [account] step in
            try step.exists(
                "SELECT 1 FROM outbox WHERE account = ? AND kind IN (?, ?) LIMIT 1", account.id,
                Outbox.Kind.message.rawValue, Outbox.Kind.presence.rawValue)
        }
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
