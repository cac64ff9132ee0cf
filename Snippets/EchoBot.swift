// A bot that sends each message back once, even if it is killed at any moment. ECHO_JID and ECHO_PASSWORD name its account.
import Foundation
import HandlerMacrosSupport
import XMPPAccount
import XMPPCore
import XMPPModules

// snippet.handler
enum Echo {
    /// Called once for each message: the answer commits together with the count of what arrived.
    @Handler("echo.received")
    static func received(_ call: borrowing Call<MessageReceived>) throws {
        guard !call.isOutgoing, !call.isHistory, call.message.type == .chat, let from = call.message.from,
            let body = call.message.body
        else { return }
        try call.account.chat.send(Message(to: from, body: body), in: call.step)
    }
}
// snippet.end

do {
    let environment = ProcessInfo.processInfo.environment
    guard let jid = environment["ECHO_JID"] else { throw AccountError(.invalidConfiguration, "set ECHO_JID") }
    var configuration = AccountConfiguration(jid: try JID(jid), password: environment["ECHO_PASSWORD"] ?? "")
    configuration.modules = .bot
    if let port = environment["ECHO_PORT"].flatMap(UInt16.init) {  // of a server on this machine
        configuration.server = .init(host: "127.0.0.1", port: port, security: .startTLS)
    }
    // snippet.run
    let store = try HandlerStore(path: "echo.db", registry: .discovered(), schemas: Account.schemas)
    try await withAccount(configuration, store: store) { account in
        let events = account.events
        try await account.listen(as: "echo", Echo.received())
        try await account.connect(retrying: true)
        for await event in events { if case .stopped(let error) = event { throw error } }
    }
    // snippet.end
} catch {
    print("EchoBot: \(error)")
    exit(1)
}
