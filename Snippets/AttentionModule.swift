// A module of a program's own: it receives calls for attention (XEP-0224), announces that it understands them, and counts
// them in a table. ATTENTION_JID and ATTENTION_PASSWORD name the account.
import Foundation
import Handlers
import XMPPAccount
import XMPPCore
import XMPPModules

// snippet.module
struct AttentionModule: AccountModule {
    static let name = "attention"
    static let namespace = "urn:xmpp:attention:0"
    static let schema = Schema(
        module: "attention",
        migrations: [
            "CREATE TABLE attention(peer TEXT PRIMARY KEY, calls INTEGER NOT NULL, last INTEGER NOT NULL)"
        ])

    func register(in hooks: inout ModuleHooks) {
        hooks.schema = Self.schema
        hooks.features = [Self.namespace]  // part of every answer to a disco#info request
        hooks.receiveMessage = receive
    }

    /// Reported after the commit by `account.events(of: AttentionModule.Called.self)`.
    struct Called: ModuleEvent { var peer: JID }

    /// Runs in the step that counts the message. A message out of an archive is no call.
    func receive(_ message: MessageReceived, in step: borrowing Step) throws -> Bool {
        guard message.source == .direct, message.message.type != .groupchat, let from = message.message.from,
            message.message.element.child("attention", Self.namespace) != nil
        else { return false }
        try step.execute(
            """
            INSERT INTO attention(peer, calls, last) VALUES (?1, 1, ?2)
            ON CONFLICT(peer) DO UPDATE SET calls = calls + 1, last = ?2
            """, from.bare.description, step.now)
        message.account.report(Called(peer: from.bare), after: step)
        return message.message.body == nil  // a call with a body is also a message for listeners
    }
}
// snippet.end

do {
    let environment = ProcessInfo.processInfo.environment
    var configuration = AccountConfiguration(
        jid: try JID(environment["ATTENTION_JID"] ?? ""), password: environment["ATTENTION_PASSWORD"] ?? "")
    if let port = environment["ATTENTION_PORT"].flatMap(UInt16.init) {  // of a server on this machine
        configuration.server = .init(host: "127.0.0.1", port: port, security: .startTLS)
    }
    // snippet.use
    configuration.modules = .standard + [AttentionModule()]
    let schemas = Account.schemas + [AttentionModule.schema]
    let store = try HandlerStore(path: "attention.db", registry: HandlerRegistry(), schemas: schemas)
    try await withAccount(configuration, store: store) { account in
        let calls = account.events(of: AttentionModule.Called.self)
        try await account.connect(retrying: true)
        for await call in calls { print("\(call.peer) wants your attention") }
    }
    // snippet.end
} catch {
    print("AttentionModule: \(error)")
    exit(1)
}
