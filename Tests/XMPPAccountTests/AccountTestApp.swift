import Foundation
import Glibc
import Handlers
import TestSupport
import XMPPAccount
import XMPPCore
import XMPPModules

/// The application of the account's tests: what its handlers do, they note in a table.
///
/// The table has no unique keys: a handler that ran twice leaves two rows.
enum TestApp {
    static let namespace = "urn:durable-handlers:test:0"

    static let schema = Schema(
        module: "account-tests",
        migrations: [
            """
            CREATE TABLE note(row INTEGER PRIMARY KEY, what TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL);
            CREATE TABLE parent(id INTEGER PRIMARY KEY);
            CREATE TABLE child(parent INTEGER NOT NULL REFERENCES parent(id) DEFERRABLE INITIALLY DEFERRED);
            CREATE TABLE filler(bytes BLOB NOT NULL);
            """
        ])

    static var registry: HandlerRegistry {
        HandlerRegistry(
            [
                Answered.self, Abandoned.self, Received.self, Acknowledged.self, AskBack.self, Chained.self,
                Deferring.self, Served.self, ServedLater.self, PageSeen.self, DeliverySeen.self,
                RoomNoted.self, Whole.self,
            ] + ContactsApp.handlers + DeferralApp.handlers)
    }

    /// What servers were told to be handled last, by names of tests.
    static let told = Kept<[String: ForeignText]>([:])

    struct Refusal: Error, CustomStringConvertible {
        let description = "this handler was asked to fail"
    }

    static func note(
        _ what: String, _ name: some TextConvertible, _ value: some TextConvertible, in step: borrowing Step
    ) throws {
        try step.execute(
            "INSERT INTO note(what, name, value) VALUES (?, ?, ?)", what, name.foreignText, value.foreignText)
    }

    /// Notes how a request ended.
    struct Answered: Handler {
        static let id = "test.answered"
        static let retry = RetryPolicy.never
        var name: String
        func run(_ call: borrowing Call<IQReply>) throws {
            let outcome =
                switch call.outcome {
                case .result(let payload): "result \(payload?.name ?? "-")"
                case .error(let error): "error \(error.condition.rawValue)"
                case .timeout: "timeout \(call.iq.error?.condition.rawValue ?? "-")"
                }
            try note("ended", name, "\(outcome) from \(call.iq.from?.description ?? "-")", in: call.step)
        }
    }

    /// Notes why a request was given up.
    struct Abandoned: Handler {
        static let id = "test.abandoned"
        static let retry = RetryPolicy.never
        var name: String
        func run(_ call: borrowing Call<Invalidation>) throws {
            _ = try call.context.account
            try note("abandoned", name, call.reason.rawValue, in: call.step)
        }
    }

    /// Notes every message; one with the body "throw" is refused after it was noted.
    struct Received: Handler {
        static let id = "test.received"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<MessageReceived>) throws {
            try note("message", call.message.id ?? "-", call.message.body ?? "", in: call.step)
            if call.message.body == "throw" { throw Refusal() }
            if call.message.body?.hasPrefix("slow ") == true { try waitSlowly(call.message) }
            if call.message.body == "orphan" {
                try call.step.execute("INSERT INTO child(parent) VALUES (4711)")
            }
            if call.message.body == "fill" {
                try call.step.execute("INSERT INTO filler(bytes) VALUES (zeroblob(1000000))")
            }
        }

        /// Takes its time, and then more until the server was told that everything before this message is handled.
        private func waitSlowly(_ message: Message) throws {
            let words = (message.body?.string ?? "").split(separator: " ").map(String.init)
            let end = ContinuousClock.now + .seconds(20)
            usleep(30_000)
            while told.withLock({ $0[words[1]] }) != words[2] {
                guard ContinuousClock.now < end else { throw Refusal() }
                usleep(1000)
            }
        }
    }

    /// Notes every message whole.
    struct Whole: Handler {
        static let id = "test.whole"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<MessageReceived>) throws {
            try note("xml", call.message.id ?? "-", call.message.element.serialized(), in: call.step)
        }
    }

    /// Notes that the server took a message.
    struct Acknowledged: Handler {
        static let id = "test.acknowledged"
        static let retry = RetryPolicy.never
        var name: String
        func run(_ call: borrowing Call<StanzaAcknowledged>) throws {
            try note("acknowledged", name, call.context.id ?? "-", in: call.step)
        }
    }

    /// Notes every message, and leaves those with the body "later" to be handled later; "throw" asks for that and throws.
    struct Deferring: Handler {
        static let id = "test.deferring"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<MessageReceived>) throws {
            let id = call.message.id ?? "-"
            try note("message", id, call.message.body ?? "", in: call.step)
            guard ["later", "throw"].contains(call.message.body) else { return }
            let receipt = try call.context.deferHandled(in: call.step)
            if call.message.body == "throw" { throw Refusal() }
            let text = String(decoding: try JSONEncoder().encode(receipt), as: UTF8.self)
            try note("receipt", id, text, in: call.step)
        }
    }

    /// Notes what a page of an archive was.
    struct PageSeen: Handler {
        static let id = "test.page-seen"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<ArchivePage>) throws {
            guard case .page(let isLast, let page) = call.context.outcome else { return }
            try note(
                "page", call.context.archive.description, "last \(page.last ?? "-") isLast \(isLast)",
                in: call.step)
        }
    }

    /// Notes how a delivery ended.
    struct DeliverySeen: Handler {
        static let id = "test.delivery-seen"
        static let retry = RetryPolicy.never
        var name: String
        func run(_ call: borrowing Call<DeliveryEnded>) throws {
            let end =
                switch call.context.delivery.failure {
                case nil: "delivered"
                case .refused(let condition): "refused \(condition.rawValue)"
                case .timedOut: "timed out"
                case .loggedOut: "logged out"
                }
            try note("delivery", name, end, in: call.step)
        }
    }

    /// Answers requests as they want it.
    struct Served: Handler {
        static let id = "test.served"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<IQRequest>) throws {
            try note("served", call.iq.id, call.iq.from?.description ?? "-", in: call.step)
            switch call.iq.payload?["want"] {
            case "result":
                try call.context.reply(Element("answer", namespace: namespace), in: call.step)
            case "error": try call.context.refuse(StanzaError(.itemNotFound), in: call.step)
            case "twice":
                try call.context.reply(in: call.step)
                try call.context.reply(in: call.step)
            case "throw": throw Refusal()
            default: break
            }
        }
    }

    /// Answers requests outside of the step that took them in.
    struct ServedLater: AsyncHandler {
        static let id = "test.served-later"
        func run(_ call: AsyncCall<IQRequest>) async throws {
            try await Task.sleep(for: .milliseconds(1))
            try call.end { step in
                try note("served", call.context.iq.id, "later", in: step)
                try call.context.reply(in: step)
            }
        }
    }

    /// Asks back, and answers, from inside the handler of a message.
    struct AskBack: Handler {
        static let id = "test.ask-back"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<MessageReceived>) throws {
            let id = call.message.id ?? "-"
            let question = Element("question", namespace: namespace, attributes: ["want": "result"])
            try call.account.send(
                IQ(type: .get, to: AccountRig.peer, id: "back-\(id)", payload: question),
                then: Answered(name: "back-\(id)").durable, in: call.step)
            try call.account.send(Message(to: AccountRig.peer, id: "reply-\(id)", body: "yes"), in: call.step)
            if call.message.body == "throw" { throw Refusal() }
        }
    }

    /// Asks the next question as soon as this one is answered.
    struct Chained: Handler {
        static let id = "test.chained"
        static let retry = RetryPolicy.never
        var left: Int
        func run(_ call: borrowing Call<IQReply>) throws {
            try note("chained", "\(left)", call.iq.id, in: call.step)
            guard left > 0 else { return }
            let question = Element("question", namespace: namespace, attributes: ["want": "result"])
            try call.account.send(
                IQ(type: .get, to: AccountRig.peer, id: "chain-\(left - 1)", payload: question),
                then: Chained(left: left - 1).durable, in: call.step)
        }
    }
}

// MARK: - Looking into the store

extension HandlerStore {
    /// The noted rows of a kind, in order: name and value.
    func notes(_ what: String) throws -> [String] {
        try step { step in
            try step.all("SELECT name, value FROM note WHERE what = ? ORDER BY row", what) {
                (row) throws(HandlerError) in "\(row.text(0)): \(row.text(1))"
            }
        }
    }

    /// How many rows the outbox has.
    var outboxCount: Int64 { get throws { try number("SELECT count(*) FROM outbox") } }
    /// How many handlers wait to be called once.
    var waitingHandlers: Int64 {
        get throws { try number("SELECT count(*) FROM handler WHERE kind = 0 AND state = 0") }
    }
    /// Handlers that were set aside.
    var setAside: Int64 { get throws { try number("SELECT count(*) FROM handler WHERE state <> 0") } }
}

extension Account {
    /// Asks, with handlers that note the end under the request's id.
    func ask(_ iq: IQ, timeout: Int64? = nil) async throws {
        try await send(
            iq, then: TestApp.Answered(name: iq.id.string).durable,
            orElse: TestApp.Abandoned(name: iq.id.string).durable,
            timeout: timeout)
    }

    /// Sends the peer a message whose acknowledgement is noted under its id.
    @discardableResult
    func tell(_ id: String, _ body: String = "hello") async throws -> String {
        try await send(
            Message(to: AccountRig.peer, id: id, body: body),
            acknowledged: TestApp.Acknowledged(name: id).durable)
    }

    func listen() async throws { try await listen(as: "test", TestApp.Received().durable) }
}
