// A bot that says everything back, once, whoever kills it. ECHO_JID and ECHO_PASSWORD name its account.
import Foundation
import HandlerMacrosSupport
import XMPPAccount
import XMPPCore

enum Echo {
    /// Called once for each message: the answer commits together with the count of what arrived.
    @Handler("echo.received")
    static func received(_ call: borrowing Call<MessageReceived>) throws {
        guard let body = call.message.body, let from = call.message.from, call.message.type == .chat,
            call.context.source != .carbonSent
        else { return }
        try call.account.chat.send(Message(to: from, body: body), in: call.step)
    }
}

do {
    let environment = ProcessInfo.processInfo.environment
    guard let jid = environment["ECHO_JID"] else { throw AccountError(.invalidConfiguration, "set ECHO_JID") }
    var configuration = AccountConfiguration(jid: try JID(jid), password: environment["ECHO_PASSWORD"] ?? "")
    configuration.modules = .standard
    let store = try HandlerStore(path: "echo.db", registry: .discovered(), schemas: Account.schemas)
    let account = try Account(configuration, store: store)
    let events = account.events
    try await account.listen(as: "echo", Echo.received())
    try await account.connect(retrying: true)
    for await event in events { if case .stopped(let error) = event { throw error } }
} catch { print("EchoBot: \(error)") }
exit(1)  // A bot ends only when something failed.
