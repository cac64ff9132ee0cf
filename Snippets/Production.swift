// A service as it runs for years: signals, limits, logs, failures. SERVICE_JID and SERVICE_PASSWORD name its account.
import Foundation
import HandlerMacrosSupport
import XMPPAccount
import XMPPCore
import XMPPModules

enum Service {
    // snippet.changed
    /// Version 1 had the argument `name`. Rows that an older program bound are read, too.
    @Handler(
        "service.greet", version: 2, aliases: ["service.hello"],
        upcast: { record, _ in record.rename("name", to: "customer") })
    static func greet(_ call: borrowing Call<MessageReceived>, customer: String) throws {
        guard let from = call.message.from, !call.isOutgoing, !call.isHistory else { return }
        try call.account.send(Message(to: from, body: "Good day, \(customer)"), in: call.step)
    }
    // snippet.end
}

func printError(_ line: String) { FileHandle.standardError.write(Data((line + "\n").utf8)) }

do {
    let environment = ProcessInfo.processInfo.environment
    guard let jid = environment["SERVICE_JID"] else {
        throw AccountError(.invalidConfiguration, "set SERVICE_JID to the address of the account")
    }
    var configuration = AccountConfiguration(
        jid: try JID(jid), password: environment["SERVICE_PASSWORD"] ?? "")
    configuration.modules = .bot
    if let port = environment["SERVICE_PORT"].flatMap(UInt16.init) {  // of a server on this machine
        configuration.server = .init(host: "127.0.0.1", port: port, security: .startTLS)
    }
    // snippet.log
    let log = AccountLog(level: .info) { entry in printError("\(entry)") }
    configuration.log = log
    let store = try HandlerStore(
        path: "service.db", registry: .discovered(), schemas: Account.schemas, log: log.handlers)
    // snippet.end
    // snippet.limits
    configuration.maximumOutbox = 10_000
    configuration.connectedRequestTimeout = .seconds(30)
    configuration.runner = .init(leases: 8, keepEndings: .seconds(86_400)) { error in
        // Any other error is one of the store; the runner tries again after a second.
        guard let failure = error as? HandlerFailure else { return }
        printError("ALERT: \(failure.name) failed for good: \(failure.error)")
    }
    // snippet.end
    for name in try store.verify() { printError("stored handlers named \(name) are unknown to this program") }
    // snippet.signals
    try await withAccount(configuration, store: store, finishing: .seconds(10)) { account in
        let events = account.events
        try await account.listen(as: "service", Service.greet(customer: "customer"))
        try await account.connect(retrying: true)
        for await event in events { if case .stopped(let error) = event { throw error } }
    }
    // snippet.end
} catch {
    printError("\(error)")
    exit(1)
}
