import Foundation
import Glibc
package import Handlers
package import TestSupport
package import XMPPAccount
package import XMPPCore

/// The application of the account's tests: what its handlers do, they note in a table.
///
/// The table has no unique keys: a handler that ran twice leaves two rows.
package enum TestApp {
    package static let namespace = "urn:durable-handlers:test:0"

    package static let schema = Schema(
        module: "account-tests",
        migrations: [
            """
            CREATE TABLE note(row INTEGER PRIMARY KEY, what TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL);
            CREATE TABLE parent(id INTEGER PRIMARY KEY);
            CREATE TABLE child(parent INTEGER NOT NULL REFERENCES parent(id) DEFERRABLE INITIALLY DEFERRED);
            CREATE TABLE filler(bytes BLOB NOT NULL);
            """
        ])

    package static let handlers: [any DurableHandler.Type] = [
        Answered.self, Abandoned.self, Received.self, Acknowledged.self, AskBack.self, Chained.self,
        Deferring.self, Served.self, ServedLater.self, Whole.self,
    ]

    package static var registry: HandlerRegistry { HandlerRegistry(handlers) }

    /// What servers were told to be handled last, by names of tests.
    package static let told = Kept<[String: ForeignText]>([:])

    /// The names of tests in whose slow handlers a thread is.
    package static let waiting = Kept<Set<String>>([])

    package struct Refusal: Error, CustomStringConvertible {
        package init() {}
        package let description = "this handler was asked to fail"
    }

    package static func note(
        _ what: String, _ name: some TextConvertible, _ value: some TextConvertible, in step: borrowing Step
    ) throws {
        try step.execute(
            "INSERT INTO note(what, name, value) VALUES (?, ?, ?)", what, name.foreignText, value.foreignText)
    }

    /// Notes how a request ended.
    package struct Answered: Handler {
        package static let id = "test.answered"
        package static let retry = RetryPolicy.never
        package var name: String
        package init(name: String) { self.name = name }
        package func run(_ call: borrowing Call<IQReply>) throws {
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
    package struct Abandoned: Handler {
        package static let id = "test.abandoned"
        package static let retry = RetryPolicy.never
        package var name: String
        package init(name: String) { self.name = name }
        package func run(_ call: borrowing Call<Invalidation>) throws {
            _ = try call.context.account
            try note("abandoned", name, call.reason.rawValue, in: call.step)
        }
    }

    /// Notes every message; one with the body "throw" is refused after it was noted.
    package struct Received: Handler {
        package static let id = "test.received"
        package static let retry = RetryPolicy.never
        package init() {}
        package func run(_ call: borrowing Call<MessageReceived>) throws {
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
            waiting.withLock { _ = $0.insert(words[1]) }
            defer { waiting.withLock { _ = $0.remove(words[1]) } }
            usleep(30_000)
            while told.withLock({ $0[words[1]] }) != words[2] {
                guard ContinuousClock.now < end else { throw Refusal() }
                usleep(1000)
            }
        }
    }

    /// Notes every message whole.
    package struct Whole: Handler {
        package static let id = "test.whole"
        package static let retry = RetryPolicy.never
        package init() {}
        package func run(_ call: borrowing Call<MessageReceived>) throws {
            try note("xml", call.message.id ?? "-", call.message.element.serialized(), in: call.step)
        }
    }

    /// Notes that the server took a message.
    package struct Acknowledged: Handler {
        package static let id = "test.acknowledged"
        package static let retry = RetryPolicy.never
        package var name: String
        package init(name: String) { self.name = name }
        package func run(_ call: borrowing Call<StanzaAcknowledged>) throws {
            try note("acknowledged", name, call.context.stanza.id ?? "-", in: call.step)
        }
    }

    /// Notes every message, and leaves those with the body "later" to be handled later; "throw" asks for that and throws.
    package struct Deferring: Handler {
        package static let id = "test.deferring"
        package static let retry = RetryPolicy.never
        package init() {}
        package func run(_ call: borrowing Call<MessageReceived>) throws {
            let id = call.message.id ?? "-"
            try note("message", id, call.message.body ?? "", in: call.step)
            guard ["later", "throw"].contains(call.message.body) else { return }
            let receipt = try call.context.deferAcknowledgement(in: call.step)
            if call.message.body == "throw" { throw Refusal() }
            let text = String(decoding: try JSONEncoder().encode(receipt), as: UTF8.self)
            try note("receipt", id, text, in: call.step)
        }
    }

    /// Answers requests as they want it.
    package struct Served: Handler {
        package static let id = "test.served"
        package static let retry = RetryPolicy.never
        package init() {}
        package func run(_ call: borrowing Call<IQRequest>) throws {
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
    package struct ServedLater: AsyncHandler {
        package static let id = "test.served-later"
        package init() {}
        package func run(_ call: AsyncCall<IQRequest>) async throws {
            try await Task.sleep(for: .milliseconds(1))
            try call.end { step in
                try note("served", call.context.iq.id, "later", in: step)
                try call.context.reply(in: step)
            }
        }
    }

    /// Asks back, and answers, from inside the handler of a message.
    package struct AskBack: Handler {
        package static let id = "test.ask-back"
        package static let retry = RetryPolicy.never
        package init() {}
        package func run(_ call: borrowing Call<MessageReceived>) throws {
            let id = call.message.id ?? "-"
            let question = Element("question", namespace: namespace, attributes: ["want": "result"])
            try call.account.send(
                .iq(IQ(type: .get, to: AccountRig.peer, id: "back-\(id)", payload: question)),
                then: Answered(name: "back-\(id)").durable, in: call.step)
            try call.account.send(Message(to: AccountRig.peer, id: "reply-\(id)", body: "yes"), in: call.step)
            if call.message.body == "throw" { throw Refusal() }
        }
    }

    /// Asks the next question as soon as this one is answered.
    package struct Chained: Handler {
        package static let id = "test.chained"
        package static let retry = RetryPolicy.never
        package var left: Int
        package init(left: Int) { self.left = left }
        package func run(_ call: borrowing Call<IQReply>) throws {
            try note("chained", "\(left)", call.iq.id, in: call.step)
            guard left > 0 else { return }
            let question = Element("question", namespace: namespace, attributes: ["want": "result"])
            try call.account.send(
                .iq(IQ(type: .get, to: AccountRig.peer, id: "chain-\(left - 1)", payload: question)),
                then: Chained(left: left - 1).durable, in: call.step)
        }
    }
}

// MARK: - Looking into the store

extension HandlerStore {
    /// The noted rows of a kind, in order: name and value.
    package func notes(_ what: String) throws -> [String] {
        try step { step in
            try step.all("SELECT name, value FROM note WHERE what = ? ORDER BY row", what) {
                (row) throws(HandlerError) in "\(row.text(0)): \(row.text(1))"
            }
        }
    }

    /// How many rows the outbox has.
    package var outboxCount: Int64 { get throws { try number("SELECT count(*) FROM outbox") } }
    /// How many handlers wait to be called once.
    package var waitingHandlers: Int64 {
        get throws { try number("SELECT count(*) FROM handler WHERE kind = 0 AND state = 0") }
    }
    /// Handlers that were quarantined or parked.
    package var unfinished: Int64 {
        get throws { try number("SELECT count(*) FROM handler WHERE state <> 0") }
    }
}

extension Account {
    /// Asks, with handlers that note the end under the request's id.
    package func ask(_ iq: IQ, timeout: Duration? = nil) async throws {
        try await send(
            .iq(iq), then: TestApp.Answered(name: iq.id.string).durable,
            orElse: TestApp.Abandoned(name: iq.id.string).durable,
            timeout: timeout)
    }

    /// Sends the peer a message whose acknowledgement is noted under its id.
    @discardableResult
    package func tell(_ id: String, _ body: String = "hello") async throws -> String {
        try await send(
            Message(to: AccountRig.peer, id: id, body: body),
            acknowledged: TestApp.Acknowledged(name: id).durable)
    }

    package func listen() async throws { try await listen(as: "test", TestApp.Received().durable) }
}
