// Many bots in one process. BOTS names a file with an address and a password in each line.
import Foundation
import HandlerMacrosSupport
import XMPPAccount
import XMPPCore
import XMPPModules

enum HostedEcho {
    @Handler("hosted-echo.received")
    static func received(_ call: borrowing Call<MessageReceived>) throws {
        guard !call.isOutgoing, !call.isHistory, call.message.type == .chat, let from = call.message.from,
            let body = call.message.body
        else { return }
        try call.account.chat.send(Message(to: from, body: body), in: call.step)
    }
}

do {
    let environment = ProcessInfo.processInfo.environment
    guard let file = environment["BOTS"] else { throw AccountError(.invalidConfiguration, "set BOTS") }
    let store = try HandlerStore(path: "bots.db", registry: .discovered(), schemas: Account.schemas)
    try await withAccountHost { host in
        for line in try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n") {
            let words = line.split(separator: " ", maxSplits: 1).map(String.init)
            var configuration = AccountConfiguration(jid: try JID(words[0]), password: words.last ?? "")
            configuration.modules = .bot
            configuration.server = environment["BOTS_PORT"].flatMap(UInt16.init).map {
                .init(host: "127.0.0.1", port: $0, security: .startTLS)  // a server on this machine
            }
            let account = try host.add(configuration, store: store)
            try await account.listen(as: "echo", HostedEcho.received())
            host.connect(account)
        }
        for await failure in host.failures { print("\(failure.account.configuration.jid): \(failure.error)") }
    }
} catch {
    print("EchoHost: \(error)")
    exit(1)
}
