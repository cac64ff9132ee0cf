import AccountTestKit
import AccountTestSupport
import Handlers
import TestSupport
import TestThreads
import Testing
import XMPPAccount
import XMPPCore

/// Fails in its first attempt with a body of "late".
private struct Reader: Handler {
    static let id = "test.ordered-reader"
    static let retry = RetryPolicy(attempts: 2, firstDelay: .milliseconds(1))
    var name = "a"
    func run(_ call: borrowing Call<MessageReceived>) throws {
        if call.message.body == "late", call.attempt == 1 { throw Broken() }
        try TestApp.note("read", name, call.message.body ?? "", in: call.step)
    }
}

/// Fails in its first attempt with a status of "late".
private struct Watcher: Handler {
    static let id = "test.ordered-watcher"
    static let retry = RetryPolicy(attempts: 2, firstDelay: .milliseconds(1))
    func run(_ call: borrowing Call<PresenceReceived>) throws {
        let status = call.presence.element.child("status", Namespaces.client)?.text ?? ""
        if status == "late", call.attempt == 1 { throw Broken() }
        try TestApp.note("read", "p", status, in: call.step)
    }
}

private struct Broken: Error {}

@Suite(.ownThread, .timeLimit(.minutes(1))) struct OrderedListenerTests {
    private func withAccount(_ body: (OfflineAccount) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        let store = try HandlerStore(
            path: folder.path + "/store.db", registry: HandlerRegistry([Reader.self, Watcher.self]),
            schemas: Account.coreSchemas + [TestApp.schema])
        let offline = try OfflineAccount(store: store)
        try await body(offline)
        await offline.close()
    }

    private func receive(_ bodies: String..., by offline: OfflineAccount) throws {
        for body in bodies {
            try offline.receive(
                "<message from='eve@example.org/x' id='\(body)'><body>\(body)</body></message>")
        }
    }

    private func drain(_ offline: OfflineAccount, until count: Int) async throws {
        try offline.account.runner.start()
        while try offline.account.store.notes("read").count < count {
            _ = try await offline.account.runner.drain(for: .seconds(20))
        }
    }

    @Test(
        "H27 with ordered: a message waits while an earlier one is tried again, also after a new start; without, it passes",
        arguments: [true, false])
    func messages(isOrdered: Bool) async throws {
        try await withAccount { offline in
            let (account, store) = (offline.account, offline.account.store)
            func listen(_ name: String = "a") throws {
                try store.step {
                    try account.listen(as: "all", Reader(name: name).durable, ordered: isOrdered, in: $0)
                }
            }
            try listen()
            try receive("one", "late", by: offline)
            // A program listens at every start.
            try listen()
            try receive("two", by: offline)
            #expect(try store.notes("read") == (isOrdered ? ["a: one"] : ["a: one", "a: two"]))
            try await drain(offline, until: 3)
            let expected = isOrdered ? ["one", "late", "two"] : ["one", "two", "late"]
            #expect(try store.notes("read") == expected.map { "a: \($0)" })
            try listen("b")
            try receive("three", by: offline)
            #expect(try store.notes("read").last == "b: three")
            #expect(try store.number("SELECT count(*) FROM handler") == 1)
        }
    }

    @Test("H27 presence comes in its order with ordered:", arguments: [true, false])
    func presence(isOrdered: Bool) async throws {
        try await withAccount { offline in
            let account = offline.account
            try account.store.step {
                try account.listenToPresence(as: "p", Watcher().durable, ordered: isOrdered, in: $0)
            }
            for status in ["late", "now"] {
                try offline.receive(
                    "<presence from='eve@example.org/x'><status>\(status)</status></presence>")
            }
            try await drain(offline, until: 2)
            #expect(
                try account.store.notes("read")
                    == (isOrdered ? ["p: late", "p: now"] : ["p: now", "p: late"]))
        }
    }
}
