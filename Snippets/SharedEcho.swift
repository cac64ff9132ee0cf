// The bots of EchoHost on several machines. STORE is a connection string, BOTS a file with an address and a password in each line, the
// same on each machine.
import Foundation
import HandlerMacrosSupport
import HandlersPostgres
import XMPPAccount
import XMPPCore
import XMPPModules

enum SharedEcho {
    @Handler("shared-echo.received")
    static func received(_ call: borrowing Call<MessageReceived>) throws {
        guard !call.isOutgoing, !call.isHistory, call.message.type == .chat, let from = call.message.from,
            let body = call.message.body
        else { return }
        try call.account.chat.send(Message(to: from, body: body), in: call.step)
    }
}

do {
    let environment = ProcessInfo.processInfo.environment
    guard let file = environment["BOTS"], let settings = environment["STORE"] else {
        throw AccountError(.invalidConfiguration, "set BOTS and STORE")
    }
    let bots = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n").map { line in
        let words = line.split(separator: " ", maxSplits: 1).map(String.init)
        var bot = AccountConfiguration(jid: try JID(words[0]), password: words.last ?? "")
        bot.modules = .bot
        return bot
    }
    let store = try HandlerStore(postgres: settings, registry: .discovered(), schemas: Account.schemas)
    try await withAccountHost { host in
        let share = host.share(bots, in: store) { account in
            try await account.listen(as: "echo", SharedEcho.received())
        } failed: { jid, error in
            print("\(jid?.description ?? "the store"): \(error)")
        }
        for await failure in host.failures { print("\(failure.account.configuration.jid): \(failure.error)") }
        // Before the host: the other machines take over at once.
        await share.close()
    }
} catch {
    print("SharedEcho: \(error)")
    exit(1)
}
