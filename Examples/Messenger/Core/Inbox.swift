import Handlers
import XMPPAccount
import XMPPCore

/// The messages of the app: a table beside the library's own, in the same database.
enum Inbox {
    static let schema = Schema(
        module: "messenger",
        migrations: [
            """
            CREATE TABLE line(
                id INTEGER PRIMARY KEY,
                peer TEXT NOT NULL,
                body TEXT NOT NULL,
                is_own INTEGER NOT NULL,
                is_shown INTEGER NOT NULL);
            """
        ],
        handlers: [Received.self])

    /// Stores each message, in whatever process receives it. Its row commits together with the count of what arrived, so that it is there
    /// once, whether the app or the extension was killed meanwhile.
    ///
    /// In plain form; `@Handler` writes the same.
    struct Received: Handler {
        static let id = "messenger.received"

        func run(_ call: borrowing Call<MessageReceived>) throws {
            let message = call.context.message
            guard message.type == .chat, let body = message.body,
                let peer = call.context.isOutgoing ? message.to : message.from
            else { return }
            try call.step.execute(
                "INSERT INTO line(peer, body, is_own, is_shown) VALUES (?, ?, ?, ?)", peer.bare.description,
                body.string, call.context.isOutgoing ? 1 : 0, call.context.isOutgoing ? 1 : 0)
            try call.step.post(LineStored())
        }
    }
}

/// Tells the app that there is another line, after the commit, also when the extension has stored it.
struct LineStored: DurableEvent {
    static let id = "messenger.line-stored"
}

/// A message as the app shows it.
public struct Line: Identifiable, Sendable {
    public let id: Int64
    public let peer: String
    public let body: String
    public let isOwn: Bool
}
