import Handlers
import PubSub
import XMPPAccount
import XMPPCore

/// The program in the tests of events: its handlers note what they were called with in a table without unique keys, so that
/// one which ran twice leaves two rows.
enum EventApp {
    static let schema = Schema(
        module: "event-tests",
        migrations: ["CREATE TABLE event_note(row INTEGER PRIMARY KEY, text TEXT NOT NULL)"])

    static let handlers: [any DurableHandler.Type] = [
        Seen.self, Failing.self, NickSeen.self, NickFetched.self, MoodSeen.self, Sent.self, Message.self,
        Later.self, NickFetchedLater.self, Asked.self, Hesitant.self,
    ]

    static func note(_ text: String, in step: borrowing Step) throws(HandlerError) {
        try step.execute("INSERT INTO event_note(text) VALUES (?)", text)
    }

    static func notes(in step: borrowing Step) throws(HandlerError) -> [String] {
        try step.all("SELECT text FROM event_note ORDER BY row") { (row) throws(HandlerError) in row.text(0) }
    }

    /// A change in words. Without a default, so that a case that is added is missed here.
    static func words(_ change: PubSubEvent.Change) -> String {
        switch change {
        case .items(let items):
            "items " + items.map { "\($0.id ?? "-")=\($0.payload?.text ?? "-")" }.joined(separator: ",")
        case .retracted(let ids): "retracted " + ids.joined(separator: ",")
        case .purged: "purged"
        case .deleted(let redirect): "deleted \(redirect ?? "-")"
        case .configured(let form): "configured \(form?["pubsub#title"] ?? "-")"
        case .subscription(let subscription):
            "subscription \(subscription.jid) \(subscription.state?.rawValue ?? "-") \(subscription.id ?? "-") \(subscription.expiry.map { String($0.milliseconds) } ?? "-")"
        case .associated(let node): "associated \(node)"
        case .disassociated(let node): "disassociated \(node)"
        }
    }

    /// Notes an event.
    struct Seen: Handler {
        static let id = "test.event-seen"
        var tag: String

        func run(_ call: borrowing Call<PubSubEvent>) throws {
            var text = "\(tag) \(call.service) \(call.node): \(words(call.change))"
            if call.isOwn { text += " own" }
            if let sentAt = call.sentAt { text += " sent at \(sentAt.milliseconds)" }
            if !call.subscriptionIDs.isEmpty {
                text += " by " + call.subscriptionIDs.joined(separator: ",")
            }
            try note(text, in: call.step)
        }
    }

    /// Writes, and then fails.
    struct Failing: Handler {
        static let id = "test.event-failing"
        static let retry = RetryPolicy(attempts: 2, firstDelay: .milliseconds(1))

        func run(_ call: borrowing Call<PubSubEvent>) throws {
            try note("half done", in: call.step)
            throw Broken()
        }
    }

    /// Fails in its first attempt with an item of "late".
    struct Hesitant: Handler {
        static let id = "test.event-hesitant"
        static let retry = RetryPolicy(attempts: 2, firstDelay: .milliseconds(1))

        func run(_ call: borrowing Call<PubSubEvent>) throws {
            let text = words(call.change)
            if text.hasSuffix("late"), call.attempt == 1 { throw Broken() }
            try note(text, in: call.step)
        }
    }

    struct Broken: Error, CustomStringConvertible {
        let description = "the program's handler is broken"
    }

    /// Notes an event of nicks.
    struct NickSeen: Handler {
        static let id = "test.nick-seen"
        var tag: String

        func run(_ call: borrowing Call<PubSubEvent.Of<UserNick>>) throws {
            let text =
                switch call.change {
                case .items(let items):
                    "nicks \(items.map(\.value.name)), unreadable \(call.unreadable.map { $0.id ?? "-" })"
                case .retracted(let ids): "retracted \(ids)"
                case .purged, .deleted, .configured, .subscription, .associated, .disassociated:
                    words(call.event.change)
                }
            try note("\(tag) \(call.event.service): \(text)", in: call.step)
        }
    }

    /// Notes what was fetched.
    struct NickFetched: Handler {
        static let id = "test.nick-fetched"
        var tag: String

        func run(_ call: borrowing Call<PubSubFetch.Of<UserNick>>) throws {
            let text =
                switch call.outcome {
                case .success(let items):
                    "nicks \(items.map(\.value.name)), unreadable \(call.unreadable.map { $0.id ?? "-" })"
                case .notFound: "not found"
                case .error(let error): "error \(error.stanzaError.condition)"
                case .timedOut: "timed out"
                }
            try note("\(tag) \(call.service): \(text)", in: call.step)
        }
    }

    /// A node of the program's own.
    struct Mood: PubSubPayload, Codable, Hashable {
        static let node = "urn:durable-handlers:test:mood"
        static let options: [PubSubOption] = [.accessModel(.presence)]
        var text: String
        var since: Int
    }

    /// Notes an event of moods.
    struct MoodSeen: Handler {
        static let id = "test.mood-seen"

        func run(_ call: borrowing Call<PubSubEvent.Of<Mood>>) throws {
            guard case .items(let items) = call.change else { return }
            for item in items {
                try note(
                    "mood of \(call.event.service): \(item.value.text) \(item.value.since)", in: call.step)
            }
        }
    }

    /// Notes how a publication ended.
    struct Sent: Handler {
        static let id = "test.event-sent"

        func run(_ call: borrowing Call<PubSubPublication>) throws {
            guard case .success(let id) = call.outcome else { return try note("failed", in: call.step) }
            try note("published \(call.node ?? "") \(id ?? "-")", in: call.step)
        }
    }

    /// Notes an event outside of the step that took it.
    struct Later: AsyncHandler {
        static let id = "test.event-later"

        func run(_ call: AsyncCall<PubSubEvent.Of<UserNick>>) async throws {
            await Task.yield()
            try call.end { step in
                guard case .items(let items) = call.context.change else { return }
                try note("later \(items.map(\.value.name))", in: step)
            }
        }
    }

    /// Notes what was fetched, outside of the step that took it.
    struct NickFetchedLater: AsyncHandler {
        static let id = "test.nick-fetched-later"

        func run(_ call: AsyncCall<PubSubFetch.Of<UserNick>>) async throws {
            await Task.yield()
            try call.end { step in
                guard case .success(let items) = call.context.outcome else { return }
                try note("fetched later \(items.map(\.value.name))", in: step)
            }
        }
    }

    /// Lets in every subscriber but Mallory, and keeps those about whom it does not decide.
    struct Asked: Handler {
        static let id = "test.subscription-asked"
        var tag: String

        func run(_ call: borrowing Call<PubSubSubscriptionRequested>) throws {
            let request = call.request
            try note(
                "\(tag) \(request.service): \(request.subscriber) \(request.node) \(request.subscriptionID ?? "-")",
                in: call.step)
            try call.account.pubsub.answer(
                request, allowing: request.subscriber.local != "mallory", in: call.step)
        }
    }

    /// Notes every message that is nobody else's.
    struct Message: Handler {
        static let id = "test.event-message"

        func run(_ call: borrowing Call<MessageReceived>) throws {
            try note("message \(call.message.id ?? "-")", in: call.step)
        }
    }
}
