import FoundationEssentials
import Glibc
import Handlers
import Platform
import PubSub
import Simulation
package import XMPPAccount
import XMPPCore
import XMPPModules

/// The account and the server, for every command that connects.
package struct ConnectionOptions {

    let configuration: AccountConfiguration

    package init(_ arguments: Arguments, role: AccountRole) throws {
        let server = try Self.server(arguments)
        let jid = try Self.address(try arguments.required("--jid"), "--jid")
        guard jid.local != nil else {
            throw UsageError("--jid '\(jid)' names a server and no user of it; write USER@DOMAIN")
        }
        var configuration = AccountConfiguration(jid: jid, password: try Self.password(arguments, jid))
        if let server { configuration.server = server }
        if let file = arguments.value("--ca") { configuration.trust = .file(path: file) }
        configuration.role = role
        configuration.resourcePrefix = "pushwake"
        if arguments.has("--log-xml") { configuration.log = Self.xmlLog() }
        self.configuration = configuration
    }

    /// Returns the server if the options name it; nil if DNS is queried for it.
    private static func server(_ arguments: Arguments) throws -> AccountConfiguration.Server? {
        let isDirect = arguments.has("--direct-tls")
        let port = try arguments.number("--port", in: 1...65535, default: isDirect ? 5223 : 5222)
        guard let host = arguments.value("--host") else {
            guard !isDirect, arguments.value("--port") == nil else {
                throw UsageError(
                    "--port and --direct-tls are about the server that --host names: add --host, or leave them out and DNS tells"
                )
            }
            return nil
        }
        return .init(host: host, port: UInt16(port), security: isDirect ? .directTLS : .startTLS)
    }

    /// Reads the password from the environment, a file or the terminal, never from the command line, which other users can read.
    private static func password(_ arguments: Arguments, _ jid: JID) throws -> String {
        let first = try arguments.firstLine(of: "--password-file", "password")
        if let password = first ?? ThisProcess.environment("PUSHWAKE_PASSWORD") { return password }
        guard isatty(STDIN_FILENO) == 1, let typed = TypedSecret.read("Password of \(jid.bare): ")
        else {
            throw UsageError(
                "set the environment variable PUSHWAKE_PASSWORD to the account's password, or name a file that holds it with --password-file"
            )
        }
        return typed
    }

    /// Writes the account's decisions and the XML of both directions to standard error, with secrets masked.
    private static func xmlLog() -> AccountLog {
        let log = AccountLog { Terminal.writeError("\($0)\n") }
        log.showsSentXML = true
        log.showsReceivedXML = true
        return log
    }

    /// Warns about an address without a user, which is seldom intended.
    static func doubt(_ jid: JID) {
        guard jid.local == nil, jid.resource == nil else { return }
        Terminal.complain("\(jid) names a server and no user of it; if somebody was meant, write USER@DOMAIN")
    }

    /// - Parameter name: The name of the option, for the error message.
    static func address(_ text: String, _ name: String) throws -> JID {
        do {
            return try JID(text)
        } catch { throw UsageError("\(name) '\(text)' is no XMPP address: \(error)") }
    }
}

/// The options that `main` and `worker` share: store, account and server.
struct AccountOptions {

    let store: String
    let peer: JID
    var configuration: AccountConfiguration
    /// The app server that wakes the account's worker; nil for none.
    let push: PushRegistration?

    init(_ arguments: Arguments, role: AccountRole) throws {
        push = try Self.push(arguments)
        store = try arguments.required("--store")
        peer = try ConnectionOptions.address(try arguments.required("--peer"), "--peer")
        var configuration = try ConnectionOptions(arguments, role: role).configuration
        // A messenger's full set of modules: their work must survive the same kills.
        configuration.modules = .standard + [PubSubEvents()]
        self.configuration = configuration
    }

    private static func push(_ arguments: Arguments) throws -> PushRegistration? {
        guard let service = arguments.value("--push-service") else { return nil }
        guard let secret = getenv("PUSHWAKE_PUSH_SECRET") else {
            throw UsageError(
                "set the environment variable PUSHWAKE_PUSH_SECRET to what the app server expects beside the node"
            )
        }
        return PushRegistration(
            service: try ConnectionOptions.address(service, "--push-service"),
            node: try arguments.required("--push-node"),
            options: [.init("secret", String(cString: secret))])
    }

    /// How long a worker waits for another process's transaction. It may wait twice in the short time that it has for its end.
    private static let patienceOfWorker = Duration.seconds(2)

    func openStore() throws -> HandlerStore {
        let store = try HandlerStore(
            path: store, registry: .discovered(and: SimulationApp.handlers),
            schemas: Account.schemas + PubSubEvents.schemas + [SimulationApp.schema],
            role: configuration.role == .worker ? .worker : .main,
            busyTimeout: configuration.role == .worker ? Self.patienceOfWorker : .seconds(5))
        if Witness.isWanted() { try Witness.install(in: store) }
        return store
    }
}

extension Arguments {
    /// Returns the first line of the file that an option names; nil without that option.
    func firstLine(of option: String, _ content: String) throws -> String? {
        guard let file = value(option) else { return nil }
        guard let text = try? String(contentsOfFile: file, encoding: .utf8) else {
            throw CommandFailure("the \(content) file \(file) cannot be read")
        }
        // The file's own newline is not part of it, whatever the newline is.
        return String(text.prefix { $0 != "\n" && $0 != "\r\n" })
    }
}
