// A main program, and the worker that a push starts while the main program is gone. Both handle messages in the same way.
// INBOX_JID and INBOX_PASSWORD name the account; `PushWorker main` is the main program, `PushWorker` the worker.
import Foundation
import HandlerMacrosSupport
import XMPPAccount
import XMPPCore
import XMPPModules

enum Inbox {
    @Handler("inbox.received")
    static func received(_ call: borrowing Call<MessageReceived>) throws {
        guard !call.isOutgoing, let body = call.message.body else { return }
        try call.step.execute("INSERT INTO inbox VALUES (?)", body)
    }
}

/// Connects, stays, and lets the server notify the app's push service.
func runMain(_ configuration: AccountConfiguration, _ store: HandlerStore) async throws {
    try await withAccount(configuration, store: store) { account in
        // snippet.main
        let events = account.events
        try await account.listen(as: "inbox", Inbox.received())
        try await account.connect(retrying: true)
        let service = try JID("push.example.org")
        let registration = PushRegistration(service: service, node: "phone-1")
        try await account.perform { try account.push.enable(registration, in: $0) }
        for await event in events { if case .stopped(let error) = event { throw error } }
        // snippet.end
    }
}

/// Takes the stream over, handles everything that waits, and gives the stream back.
func runWorker(_ configuration: AccountConfiguration, _ store: HandlerStore) async throws {
    // snippet.worker
    let end = ContinuousClock.now + .seconds(25)  // of the 30 s that the platform allows
    let account = try Account(configuration, store: store)
    let alarm = Task {
        try await Task.sleep(until: end)
        await account.close()  // ends a connect or catch-up that takes too long
    }
    do {
        try await account.connect()
        try await account.caughtUp()
        let isDone = try await account.runner.drain(for: end - .now - .seconds(1))
        print(isDone ? "nothing waits" : "the next worker continues")
    } catch let error as AccountError where error.code == .ownershipHeld {
        print("the main program is connected")
    } catch let error as AccountError where error.code == .closed {
        print("the next worker continues")
    }
    alarm.cancel()
    await account.close()
    // snippet.end
}

do {
    let environment = ProcessInfo.processInfo.environment
    let isMain = CommandLine.arguments.dropFirst().first == "main"
    guard let jid = environment["INBOX_JID"] else {
        throw AccountError(.invalidConfiguration, "set INBOX_JID to the address of the account")
    }
    let tables = Schema(module: "inbox", migrations: ["CREATE TABLE inbox(body TEXT NOT NULL)"])
    // snippet.roles
    var configuration = AccountConfiguration(
        jid: try JID(jid), password: environment["INBOX_PASSWORD"] ?? "")
    configuration.modules = .bot  // the same modules in both programs
    configuration.role = isMain ? .main : .worker
    let store = try HandlerStore(
        path: "inbox.db", registry: .discovered(), schemas: Account.schemas + [tables],
        role: isMain ? .main : .worker, busyTimeout: .seconds(isMain ? 5 : 2))
    // snippet.end
    if let port = environment["INBOX_PORT"].flatMap(UInt16.init) {  // of a server on this machine
        configuration.server = .init(host: "127.0.0.1", port: port, security: .startTLS)
    }
    if isMain {
        try await runMain(configuration, store)
    } else {
        try await runWorker(configuration, store)
    }
} catch {
    print("PushWorker: \(error)")
    exit(1)
}
