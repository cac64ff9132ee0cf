import AccountTestKit
import AccountTestSupport
import Handlers
import TestSupport
@testable import XMPPAccount
import XMPPCore
import XMPPModules

/// An account in an open session whose stanzas a test writes, with a listener that notes each message.
final class FedAccount {
    static let own = "alice@localhost"
    static let full = "alice@localhost/phone"

    let folder: TemporaryFolder
    let store: HandlerStore
    let offline: OfflineAccount
    var account: Account { offline.account }

    /// - Parameters:
    ///   - configured: The address that the program gives.
    ///   - full: The address that the server has assigned.
    init(_ modules: [any AccountModule], configured: String = own, assigned full: String = full) throws {
        folder = try TemporaryFolder()
        store = try HandlerStore(
            path: folder.path + "/app.db",
            registry: HandlerRegistry(TestApp.handlers + ModulesApp.handlers + [Taken.self]),
            schemas: Account.schemas + [TestApp.schema])
        var configuration = AccountConfiguration(jid: try JID(configured), password: "none")
        configuration.modules = modules
        offline = try OfflineAccount(configuration, store: store, resource: "phone")
        try step { step in
            try step.execute("UPDATE session SET number = 1, open_number = 1, full_jid = ?", full)
            // As after a login.
            _ = try account.ownAddress(in: step)
            try account.listeners.set("message", key: "test", to: Taken().durable, in: step)
        }
    }

    /// Notes a message, whether it is history, and whose it is.
    struct Taken: Handler {
        static let id = "test.taken"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<MessageReceived>) throws {
            let kind = call.context.isHistory ? "history" : "news"
            try TestApp.note("message", call.message.id ?? "-", call.message.body ?? "", in: call.step)
            try TestApp.note(
                "kind", call.message.id ?? "-", "\(kind)\(call.context.isOutgoing ? " of its own" : "")",
                in: call.step)
        }
    }

    func step<R>(_ body: (borrowing Step) throws -> R) throws -> R { try store.step(body) }

    /// - Returns: Why it was ignored, if it was.
    @discardableResult
    func receive(_ xml: String) throws -> String? {
        for event in try offline.receive(xml) { if case .ignored(_, let reason) = event { return reason } }
        return nil
    }

    /// The stanzas that wait to be sent, which are gone then.
    func takeSent() throws -> [Element] {
        let sent = try offline.sent
        _ = try step { try $0.execute("DELETE FROM outbox") }
        return sent
    }

    func close() async { await offline.close() }
}

/// Runs a test with an account that is closed in any case.
func withFed(
    _ modules: any AccountModule..., configured: String = FedAccount.own,
    assigned full: String = FedAccount.full, body: (FedAccount) throws -> Void
) async throws {
    let fed = try FedAccount(modules, configured: configured, assigned: full)
    let result = Result { try body(fed) }
    await fed.close()
    try result.get()
}
