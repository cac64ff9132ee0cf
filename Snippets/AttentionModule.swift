// A module of a program's own: it takes calls for attention (XEP-0224), announces that it understands them, and keeps
// count of them in a table.
import Glibc
import Handlers
import XMPPAccount
import XMPPCore
import XMPPModules

struct AttentionModule: AccountModule {
    static let name = "attention"
    static let namespace = "urn:xmpp:attention:0"
    static let schema: Schema? = Schema(
        module: "attention",
        migrations: [
            "CREATE TABLE attention(peer TEXT PRIMARY KEY, calls INTEGER NOT NULL, last INTEGER NOT NULL)"
        ])

    let features: Set<String> = [namespace]  // answered to who asks what this account understands

    /// Told after the commit, to who listens to `account.events(of: AttentionModule.Called.self)`.
    struct Called: ModuleEvent { var peer: JID }

    /// In the step that counts the message. Only what came by itself is a call, not what an archive gives out.
    func receive(_ message: MessageReceived, in step: borrowing Step) throws -> Bool {
        guard message.source == .live, message.message.type != .groupchat, let from = message.message.from,
            message.message.element.child("attention", Self.namespace) != nil
        else { return false }
        try step.execute(
            """
            INSERT INTO attention(peer, calls, last) VALUES (?1, 1, ?2)
            ON CONFLICT(peer) DO UPDATE SET calls = calls + 1, last = ?2
            """, from.bare.description, step.now)
        message.account.tell(Called(peer: from.bare), after: step)
        return message.message.body == nil  // with a text it is a message too
    }
}

do {
    var configuration = AccountConfiguration(jid: try JID("romeo@montague.example"), password: "secret")
    configuration.modules = .standard + [AttentionModule()]
    let schemas = Account.schemas + [AttentionModule.schema!]  // it has one, two lines above
    let store = try HandlerStore(path: "attention.db", registry: HandlerRegistry(), schemas: schemas)
    let account = try Account(configuration, store: store)
    let calls = account.events(of: AttentionModule.Called.self)
    try await account.connect()
    for await call in calls { print("\(call.peer) wants your attention") }
} catch {
    print("AttentionModule: \(error)")
    exit(1)
}
