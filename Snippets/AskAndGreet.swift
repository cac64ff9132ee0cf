// Asks a peer something; the process that owns the stream when the answer arrives greets it. It runs as it stands on the
// server of docs/reference/pushwake.md; ASK_JID, ASK_PASSWORD, ASK_PEER, ASK_PORT and ASK_TRUST name another one.
import Foundation
import HandlerMacrosSupport
import XMPPAccount
import XMPPCore
import XMPPModules

// snippet.handlers
enum Greeter {
    /// Runs when the answer, an error or the timeout arrives: once, in the process that owns the stream then.
    @Handler("greeter.answered")
    static func answered(_ call: borrowing Call<IQReply>, name: String) throws {
        guard case .result = call.outcome, let peer = call.iq.from else {
            try call.step.execute("INSERT INTO missed VALUES (?, ?)", name, "\(call.outcome)")
            return
        }
        try call.account.send(Message(to: peer, body: "Good day, \(name)"), in: call.step)
    }

    /// Runs instead when no answer can arrive any more, with the reason.
    @Handler("greeter.abandoned")
    static func abandoned(_ call: borrowing Call<Invalidation>, name: String) throws {
        try call.step.execute("INSERT INTO missed VALUES (?, ?)", name, call.reason.rawValue)
    }
}
// snippet.end

do {
    let environment = ProcessInfo.processInfo.environment
    let tables = Schema(module: "greeter", migrations: ["CREATE TABLE missed(name TEXT, reason TEXT)"])
    let store = try HandlerStore(
        path: "greeter.db", registry: .discovered(), schemas: Account.schemas + [tables])
    var configuration = AccountConfiguration(
        jid: try JID(environment["ASK_JID"] ?? "romeo@localhost"),
        password: environment["ASK_PASSWORD"] ?? "secret")
    configuration.server = .init(
        host: "127.0.0.1", port: environment["ASK_PORT"].flatMap(UInt16.init) ?? 5222, security: .startTLS)
    configuration.trust = .file(path: environment["ASK_TRUST"] ?? "server/localhost.crt")
    let juliet = try JID(environment["ASK_PEER"] ?? "juliet@localhost/1")
    // snippet.ask
    let account = try Account(configuration, store: store)
    try await account.connect()
    let ping = Element("ping", namespace: Namespaces.ping)
    let question = IQ(type: .get, to: juliet, id: StanzaID.random(), payload: ping)
    try await account.send(
        .iq(question), then: Greeter.answered(name: "Juliet"), orElse: Greeter.abandoned(name: "Juliet"))
    // snippet.end
} catch {
    print("AskAndGreet: \(error)")
    exit(1)
}
