import Handlers
import Omemo
import PubSub
import XMPPAccount
import XMPPCore

/// The program whose account takes in what is fuzzed: handlers for everything that can arrive.
enum FuzzHandlers {
    static let all: [any DurableHandler.Type] =
        PubSubService.handlers + [
            Heard.self, Asked.self, Answered.self, Changed.self, Read.self, Ticked.self, Failing.self,
        ]

    /// Answers messages.
    struct Heard: Handler {
        static let id = "fuzz.heard"
        func run(_ call: borrowing Call<MessageReceived>) throws {
            guard call.source == .direct, let from = call.message.from, let body = call.message.body else {
                return
            }
            try call.account.send(Message(to: from, body: "\(body)"), in: call.step)
        }
    }

    /// Answers requests with what they ask.
    struct Asked: Handler {
        static let id = "fuzz.asked"
        func run(_ call: borrowing Call<IQRequest>) throws {
            try call.context.reply(call.iq.payload, in: call.step)
        }
    }

    /// Takes the answer to a request.
    struct Answered: Handler {
        static let id = "fuzz.answered"
        var tag: String
        func run(_ call: borrowing Call<IQReply>) throws {}
    }

    /// Takes the events of a node.
    struct Changed: Handler {
        static let id = "fuzz.changed"
        func run(_ call: borrowing Call<PubSubEvent>) throws {}
    }

    /// Takes what was decrypted.
    struct Read: Handler {
        static let id = "fuzz.read"
        func run(_ call: borrowing Call<OmemoReceived>) throws {}
    }

    /// A timer.
    struct Ticked: Handler {
        static let id = "fuzz.ticked"
        func run(_ call: borrowing Call<TimerFired>) throws {}
    }

    /// Fails, and is quarantined at once.
    struct Failing: Handler {
        static let id = "fuzz.failing"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<MessageReceived>) throws { throw StanzaError(.internalServerError) }
    }
}
