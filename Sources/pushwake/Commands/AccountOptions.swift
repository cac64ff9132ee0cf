import Glibc
import HandlerMacrosSupport
import Handlers
import XMPPAccount
import XMPPCore

/// The options that `main` and `worker` share: which store, which account, which server.
struct AccountOptions {
    static let names: Set<String> = ["--store", "--jid", "--peer", "--host", "--port", "--ca"]
    static let flags: Set<String> = ["--direct-tls", "--log-xml"]

    let store: String
    let peer: JID
    let configuration: AccountConfiguration

    init(_ arguments: Arguments, role: AccountRole) throws {
        store = try arguments.required("--store")
        peer = try Self.address(arguments, "--peer")
        guard let password = getenv("PUSHWAKE_PASSWORD").map({ String(cString: $0) }) else {
            throw UsageError("set the environment variable PUSHWAKE_PASSWORD to the account's password")
        }
        let jid = try Self.address(arguments, "--jid")
        var configuration = AccountConfiguration(jid: jid, password: password)
        if let host = arguments.value("--host") {
            let port = try arguments.number(
                "--port", in: 1...65535, default: arguments.has("--direct-tls") ? 5223 : 5222)
            configuration.server = .init(
                host: host, port: UInt16(port),
                security: arguments.has("--direct-tls") ? .directTLS : .startTLS)
        }
        if let file = arguments.value("--ca") { configuration.trust = .file(path: file) }
        configuration.role = role
        configuration.resourcePrefix = "pushwake"
        if arguments.has("--log-xml") { configuration.log = Self.xmlLog() }
        self.configuration = configuration
    }

    /// Everything the account decides and the XML in both directions, secrets masked, on standard error.
    private static func xmlLog() -> AccountLog {
        let log = AccountLog { Terminal.writeError("\($0)\n") }
        log.showsSentXML = true
        log.showsReceivedXML = true
        return log
    }

    private static func address(_ arguments: Arguments, _ name: String) throws -> JID {
        let text = try arguments.required(name)
        do {
            return try JID(text)
        } catch {
            throw UsageError("\(name) '\(text)' is no XMPP address: \(error)")
        }
    }

    func openStore() throws -> HandlerStore {
        try HandlerStore(
            path: store, registry: .discovered(and: SimulationApp.handlers),
            schemas: Account.schemas + [SimulationApp.schema],
            role: configuration.role == .worker ? .worker : .main)
    }
}
