import Foundation
import Handlers
import XMPPAccount
import XMPPCore
import XMPPModules

/// One account and its store, as the app and its extension use them.
public final class Messenger: Sendable {
    /// Which of the two programs this is.
    public enum Part: Sendable {
        case app
        case notificationService
    }

    public let store: HandlerStore
    public let account: Account

    /// - Parameter folder: The container of the app group, which both programs can open.
    public init(folder: URL, address: String, password: String, as part: Part) throws {
        store = try HandlerStore(
            path: folder.appendingPathComponent("messenger.db").path, registry: HandlerRegistry(),
            schemas: Account.schemas + [Inbox.schema], role: part == .app ? .main : .worker,
            // An extension has half a minute: it must not spend it on waiting for the app.
            busyTimeout: part == .app ? .seconds(5) : .seconds(2))
        var configuration = AccountConfiguration(jid: try JID(address), password: password)
        // The same modules in both: one that counts stanzas must have seen them all.
        configuration.modules = .bot
        configuration.role = part == .app ? .main : .worker
        account = try Account(configuration, store: store)
    }

    /// Connects, and stays connected until ``suspend(within:)``.
    public func connect() async throws {
        try await account.listen(as: "inbox", Inbox.Received().durable)
        try await account.connect(retrying: true)
    }

    /// Has the server wake the extension for what comes while the app is away (XEP-0357).
    public func enablePush(service: String, node: String, secret: String) async throws {
        let registration = PushRegistration(
            service: try JID(service), node: node, options: [.init("secret", secret)])
        try await account.perform { [account] in try account.push.enable(registration, in: $0) }
    }

    /// Stores a message together with the request to send it: it is sent once, by this process or by the next.
    public func send(_ body: String, to address: String) async throws {
        let peer = try JID(address)
        try await account.perform { [account] step in
            try account.chat.send(Message(to: peer, body: body), in: step)
            try step.execute(
                "INSERT INTO line(peer, body, is_own, is_shown) VALUES (?, ?, 1, 1)", peer.bare.description,
                body)
            try step.post(LineStored())
        }
    }

    /// Calls `body` after lines were stored, by this process or another, until the store is suspended.
    public func watchLines(_ body: @Sendable () async -> Void) async throws {
        for try await delivery in store.events(LineStored.self) {
            try store.step { _ = try delivery.consume(in: $0) }
            await body()
        }
    }

    /// The newest messages with somebody, oldest first.
    public func lines(limit: Int = 200) throws -> [Line] {
        try store.read { snapshot in
            try snapshot.all(
                "SELECT id, peer, body, is_own FROM line ORDER BY id DESC LIMIT ?", limit
            ) { row in
                Line(id: row.integer(0), peer: row.text(1), body: row.text(2), isOwn: row.integer(3) == 1)
            }
        }.reversed()
    }

    /// What a push has brought: connects, takes everything in, and returns what was not shown yet.
    ///
    /// - Parameter time: How long it may take: less than the system gives.
    public func takeIn(within time: Duration) async throws -> [Line] {
        let end = ContinuousClock.now + time
        let alarm = Task { [account] in
            try await Task.sleep(until: end)
            await account.close()
        }
        defer { alarm.cancel() }
        do {
            try await account.connect()
            try await account.caughtUp()
            _ = try await account.runner.drain(for: max(.zero, end - .now - .seconds(1)))
        } catch let error as AccountError where error.code == .ownershipHeld {
            // The app runs and has the stream: it shows the message itself.
        } catch let error as AccountError where error.code == .closed {
            // The time is over. The rest is delivered to the next process.
        }
        return try takeUnshown()
    }

    /// Marks what was not shown in the step that reads it, so that two extensions do not show the same.
    private func takeUnshown() throws -> [Line] {
        try store.step { step in
            let lines = try step.all("SELECT id, peer, body FROM line WHERE is_shown = 0 ORDER BY id") {
                Line(id: $0.integer(0), peer: $0.text(1), body: $0.text(2), isOwn: false)
            }
            try step.execute("UPDATE line SET is_shown = 1 WHERE is_shown = 0")
            return lines
        }
    }

    /// Gives back the stream and all locks, because the system suspends this program, or may.
    ///
    /// First the account: it tells the server that the session goes on later. Then the store: from then on no file of it is locked.
    ///
    /// - Returns: Whether everything was given back in time.
    @discardableResult
    public func suspend(within time: Duration) async -> Bool {
        let end = ContinuousClock.now + time
        try? await account.suspend()
        return await store.suspend(within: max(.zero, end - .now))
    }

    /// Goes on after ``suspend(within:)``.
    public func resume() async throws {
        try store.resume()
        try await connect()
    }
}
