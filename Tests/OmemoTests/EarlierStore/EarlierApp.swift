import Handlers
import Synchronization
import TestSupport
import XMPPAccount
import XMPPCore

/// Handlers of every state that a store can hold. Each one adds one row to `note` when it ends.
enum EarlierApp {
    /// Whether this process writes the store, as the earlier program: then handlers fail, and async ones do not end.
    static let isWriting = Kept(false)
    static func failsNow() -> Bool { isWriting.withLock { $0 } }

    static let handlers: [any DurableHandler.Type] = [
        Tick.self, Job.self, Patient.self, Quarantined.self, Leased.self, Instead.self, Answered.self,
        Acknowledged.self, Received.self, World.Heard.self, World.Reported.self,
    ]

    struct Failure: Error {}

    struct Work: RestorableContext, Codable { var n = 0 }

    struct News: DurableEvent {
        static let id = "earlier-news"
        var text: String
    }

    fileprivate static func note(_ text: String, in step: borrowing Step) throws {
        try step.execute("INSERT INTO note(text) VALUES (?)", text)
    }

    /// A timer.
    struct Tick: Handler {
        static let id = "earlier.tick"
        var name: String
        func run(_ call: borrowing Call<TimerFired>) throws { try note("tick \(name)", in: call.step) }
    }

    /// Waits for a call.
    struct Job: Handler {
        static let id = "earlier.job"
        var name: String
        func run(_ call: borrowing Call<Work>) throws { try note("job \(name) \(call.n)", in: call.step) }
    }

    /// Fails at first and is tried again.
    struct Patient: Handler {
        static let id = "earlier.patient"
        static let retry = RetryPolicy(attempts: 5, firstDelay: .milliseconds(1), factor: 1)
        func run(_ call: borrowing Call<Work>) throws {
            try note("patient \(call.n)", in: call.step)
            if failsNow() { throw Failure() }
        }
    }

    /// Fails at first and is quarantined.
    struct Quarantined: Handler {
        static let id = "earlier.quarantined"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<Work>) throws {
            try note("quarantined \(call.n)", in: call.step)
            if failsNow() { throw Failure() }
        }
    }

    /// Unknown to the program that writes the store, which parks it.
    struct Parked: Handler {
        static let id = "earlier.parked"
        func run(_ call: borrowing Call<Work>) throws { try note("parked \(call.n)", in: call.step) }
    }

    /// Runs while the store is written, in a process that never ends it.
    struct Leased: AsyncHandler {
        static let id = "earlier.leased"
        func run(_ call: AsyncCall<Work>) async throws {
            while failsNow() { try await Task.sleep(for: .milliseconds(5)) }
            try call.end { step in try note("leased \(call.n)", in: step) }
        }
    }

    /// Runs when a handler can never be called.
    struct Instead: Handler {
        static let id = "earlier.instead"
        var name: String
        func run(_ call: borrowing Call<Invalidation>) throws {
            try note("instead \(name) \(call.reason)", in: call.step)
        }
    }

    /// Waits for the answer of a request.
    struct Answered: Handler {
        static let id = "earlier.answered"
        var name: String
        func run(_ call: borrowing Call<IQReply>) throws {
            try note("answered \(name) \(call.iq.type)", in: call.step)
        }
    }

    /// Waits for the server's count.
    struct Acknowledged: Handler {
        static let id = "earlier.acknowledged"
        var name: String
        func run(_ call: borrowing Call<StanzaAcknowledged>) throws {
            try note("acknowledged \(name)", in: call.step)
        }
    }

    /// Listens to messages: "fail" fails while the store is written, "later" is deferred then.
    struct Received: Handler {
        static let id = "earlier.received"
        static let retry = RetryPolicy(attempts: 5, firstDelay: .milliseconds(1), factor: 1)
        func run(_ call: borrowing Call<MessageReceived>) throws {
            guard let body = call.message.body else { return }
            try note("message \(call.message.id ?? "-") \(body)", in: call.step)
            guard failsNow() else { return }
            if body == "fail" { throw Failure() }
            if body == "later" { try call.context.deferAcknowledgement(in: call.step) }
        }
    }
}
