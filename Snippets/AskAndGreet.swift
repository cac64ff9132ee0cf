// Asks a peer something; whichever process is there when the answer comes greets it.
import Glibc
import HandlerMacrosSupport
import XMPPAccount
import XMPPCore
import XMPPModules

enum Greeter {
    /// Runs when the answer arrives, or the error, or the timeout: once, in whatever process owns the stream then.
    @Handler("greeter.answered")
    static func answered(_ call: borrowing Call<IQReply>, name: String) throws {
        guard case .result = call.outcome, let peer = call.iq.from else { return }
        try call.account.send(Message(to: peer, body: "Good day, \(name)"), in: call.step)
    }

    /// Runs instead when the answer can never come, with the reason.
    @Handler("greeter.abandoned")
    static func abandoned(_ call: borrowing Call<Invalidation>, name: String) throws {
        try call.step.execute("INSERT INTO missed VALUES (?, ?)", name, call.reason.rawValue)
    }
}

do {
    let tables = Schema(module: "greeter", migrations: ["CREATE TABLE missed(name TEXT, reason TEXT)"])
    let store = try HandlerStore(
        path: "greeter.db", registry: .discovered(), schemas: Account.schemas + [tables])
    var configuration = AccountConfiguration(jid: try JID("romeo@localhost"), password: "secret")
    configuration.server = .init(host: "127.0.0.1", port: 5222, security: .startTLS)
    configuration.trust = .file(path: "server/localhost.crt")
    let account = try Account(configuration, store: store)
    try await account.connect()
    let ping = Element("ping", namespace: Namespaces.ping)
    let question = IQ(type: .get, to: try JID("juliet@localhost/1"), id: StanzaID.random(), payload: ping)
    try await account.send(
        .iq(question), then: Greeter.answered(name: "Juliet"), orElse: Greeter.abandoned(name: "Juliet"))
} catch {
    print("AskAndGreet: \(error)")
    exit(1)
}
