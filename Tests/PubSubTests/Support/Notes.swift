import Handlers
import PubSub
import XMPPAccount
import XMPPCore

/// The program in these tests: its handlers note what they were called with in a table of their own.
enum Notes {
    static let schema = Schema(
        module: "notes", migrations: ["CREATE TABLE note(row INTEGER PRIMARY KEY, text TEXT NOT NULL)"])

    static let handlers: [any DurableHandler.Type] = [
        Fetched.self, Published.self, Abandoned.self, Failing.self, Swallowing.self, Rewording.self,
        Done.self, Created.self, FormRead.self, Paged.self, Subscribed.self, Subscriptions.self,
        Affiliations.self, FetchedLater.self, PublishedInMain.self,
    ]

    static func add(_ text: String, in step: borrowing Step) throws(HandlerError) {
        try step.execute("INSERT INTO note(text) VALUES (?)", text)
    }

    static func all(in step: borrowing Step) throws(HandlerError) -> [String] {
        try step.all("SELECT text FROM note ORDER BY row") { (row) throws(HandlerError) in row.text(0) }
    }

    struct Fetched: Handler {
        static let id = "test.fetched"
        var tag: String

        func run(_ call: borrowing Call<PubSubFetch>) throws {
            let outcome =
                switch call.outcome {
                case .success(let items):
                    "items "
                        + items.map { "\($0.id ?? "-")=\($0.payload?.text ?? "-")" }.joined(separator: ",")
                case .notFound: "not found"
                case .error(let error):
                    "error \(error.condition?.rawValue ?? error.stanzaError.condition.rawValue)"
                case .timedOut: "timed out"
                }
            let role = call.account.configuration.role
            try Notes.add("\(tag) \(role) \(call.service) \(call.node ?? ""): \(outcome)", in: call.step)
        }
    }

    /// Waits before it notes what it was called with.
    struct FetchedLater: AsyncHandler {
        static let id = "test.fetched-later"
        func run(_ call: AsyncCall<PubSubFetch>) async throws {
            await Task.yield()
            try call.end { step in
                try Notes.add("later \(call.service) \(call.node ?? ""): \(call.outcome)", in: step)
            }
        }
    }

    /// Runs in the main program only.
    struct PublishedInMain: Handler {
        static let id = "test.published-in-main"
        static let availability = Availability.mainOnly
        func run(_ call: borrowing Call<PubSubPublication>) throws {
            let role = call.account.configuration.role
            try Notes.add("\(role) \(call.service) \(call.node ?? ""): \(call.outcome)", in: call.step)
        }
    }

    struct Published: Handler {
        static let id = "test.published"
        var tag: String

        func run(_ call: borrowing Call<PubSubPublication>) throws {
            let outcome =
                switch call.outcome {
                case .success(let id): "published \(id ?? "-")"
                case .notFound: "not found"
                case .error(let error) where error.condition == .preconditionNotMet: "precondition not met"
                case .error(let error):
                    "error \(error.condition?.rawValue ?? error.stanzaError.condition.rawValue)"
                case .timedOut: "timed out"
                }
            let role = call.account.configuration.role
            try Notes.add("\(tag) \(role) \(call.service) \(call.node ?? ""): \(outcome)", in: call.step)
        }
    }

    /// Notes how an operation ended, with what it brought.
    private static func add<Value>(
        _ tag: String, _ answer: PubSubAnswer<Value>, in step: borrowing Step,
        _ describe: (Value) -> String
    ) throws(HandlerError) {
        let outcome =
            switch answer.outcome {
            case .success(let value): describe(value)
            case .notFound: "not found"
            case .error(let error):
                "error \(error.condition?.rawValue ?? error.stanzaError.condition.rawValue)"
            case .timedOut: "timed out"
            }
        try add("\(tag): \(outcome)", in: step)
    }

    struct Done: Handler {
        static let id = "test.done"
        var tag: String
        func run(_ call: borrowing Call<PubSubCompletion>) throws {
            try Notes.add(tag, call.context, in: call.step) { "done" }
        }
    }

    struct Created: Handler {
        static let id = "test.created"
        var tag: String
        func run(_ call: borrowing Call<PubSubAnswer<ForeignText>>) throws {
            try Notes.add(tag, call.context, in: call.step) { "created \($0)" }
        }
    }

    struct FormRead: Handler {
        static let id = "test.form-read"
        var tag: String
        var field: String
        func run(_ call: borrowing Call<PubSubAnswer<DataForm>>) throws {
            try Notes.add(tag, call.context, in: call.step) { "\(field) is \($0[field] ?? "-")" }
        }
    }

    struct Subscribed: Handler {
        static let id = "test.subscribed"
        var tag: String
        func run(_ call: borrowing Call<PubSubAnswer<PubSubSubscription>>) throws {
            try Notes.add(tag, call.context, in: call.step) { "\($0.jid) \($0.state)" }
        }
    }

    struct Subscriptions: Handler {
        static let id = "test.subscriptions"
        var tag: String
        func run(_ call: borrowing Call<PubSubAnswer<[PubSubSubscription]>>) throws {
            try Notes.add(tag, call.context, in: call.step) {
                $0.map { "\($0.jid) \($0.state)" }.sorted().joined(separator: ", ")
            }
        }
    }

    struct Affiliations: Handler {
        static let id = "test.affiliations"
        var tag: String
        func run(_ call: borrowing Call<PubSubAnswer<[PubSubAffiliation]>>) throws {
            try Notes.add(tag, call.context, in: call.step) {
                $0.map { "\($0.jid) \($0.kind)" }.sorted().joined(separator: ", ")
            }
        }
    }

    /// Notes the ids of a page and asks for the next one.
    struct Paged: Handler {
        static let id = "test.paged"
        func run(_ call: borrowing Call<PubSubAnswer<PubSubPage>>) throws {
            try Notes.add("page", call.context, in: call.step) {
                $0.items.map { $0.id ?? "-" }.joined(separator: ",")
            }
            guard case .success(let page) = call.outcome, let next = page.next else { return }
            try call.account.send(.pubsub(next, at: call.service), then: Paged().durable, in: call.step)
        }
    }

    struct Abandoned: Handler {
        static let id = "test.abandoned"
        var tag: String

        func run(_ call: borrowing Call<Invalidation>) throws {
            let jid = try call.context.account.configuration.jid
            try Notes.add("\(tag) \(jid): \(call.handler) \(call.reason)", in: call.step)
        }
    }

    /// Writes and then fails.
    struct Failing: Handler {
        static let id = "test.failing"
        static let retry = RetryPolicy.never

        func run(_ call: borrowing Call<PubSubFetch>) throws {
            try Notes.add("half done", in: call.step)
            throw Broken()
        }
    }

    struct Broken: Error, CustomStringConvertible {
        let description = "the program's handler is broken"
    }

    /// Runs what it holds and takes no notice of its error.
    struct Swallowing: Handler {
        static let id = "test.swallowing"
        var then: Durable<PubSubFetch>

        func run(_ call: borrowing Call<PubSubFetch>) throws {
            try Notes.add("before", in: call.step)
            try? call.step.run(then, with: call.context)
            try Notes.add("after", in: call.step)
        }
    }

    /// Runs what it holds and fails with an error of its own.
    struct Rewording: Handler {
        static let id = "test.rewording"
        var then: Durable<PubSubFetch>

        func run(_ call: borrowing Call<PubSubFetch>) throws {
            do {
                try call.step.run(then, with: call.context)
            } catch {
                throw Broken()
            }
        }
    }
}
