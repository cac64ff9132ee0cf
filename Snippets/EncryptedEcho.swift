// A bot that says everything back, encrypted, to devices whose keys it may trust. ECHO_JID and ECHO_PASSWORD name its
// account. It links libomemo-c, which is under the GPL.
import Foundation
import HandlerMacrosSupport
import Omemo
import XMPPAccount
import XMPPCore
import XMPPModules

enum SecretEcho {
    /// Called in the step that decrypts: the ratchet, the answer and the count of what arrived commit together.
    @Handler("secret-echo.heard")
    static func heard(_ call: borrowing Call<OmemoReceived>) throws {
        guard !call.isOutgoing, !call.isHistory, call.message.type == .chat, let sender = call.sender,
            call.trust.mayReceive, case .content(let content) = call.outcome
        else { return }
        try call.account.omemo.send(
            OmemoContent(body: content.body), to: sender, then: SecretEcho.sent(), in: call.step)
    }

    /// Called once the answer was encrypted and handed to the outbox, or given up: who cannot read it, and why.
    @Handler("secret-echo.sent")
    static func sent(_ call: borrowing Call<OmemoSending>) throws {
        for device in call.failures { print("not for \(device.jid): \(device.failure?.description ?? "")") }
    }
}

do {
    let environment = ProcessInfo.processInfo.environment
    guard let jid = environment["ECHO_JID"] else { throw AccountError(.invalidConfiguration, "set ECHO_JID") }
    var configuration = AccountConfiguration(jid: try JID(jid), password: environment["ECHO_PASSWORD"] ?? "")
    configuration.modules = .bot + [OmemoModule()]
    if let port = environment["ECHO_PORT"].flatMap(UInt16.init) {  // of a server on this machine
        configuration.server = .init(host: "127.0.0.1", port: port, security: .startTLS)
    }
    let store = try HandlerStore(
        path: "secret-echo.db", registry: .discovered(), schemas: Account.schemas + OmemoService.schemas)
    try await withAccount(configuration, store: store) { account in
        let events = account.events
        try await account.omemo.listen(as: "echo", SecretEcho.heard())
        try await account.connect(retrying: true)
        try await account.omemo.start()
        for await event in events { if case .stopped(let error) = event { throw error } }
    }
} catch {
    print("EncryptedEcho: \(error)")
    exit(1)
}
