import Handlers
import XMPPAccount
import XMPPCore
import XMPPModules

// What a command does whose account another process has connected: it commits what is to be sent, that process sends it, and
// the answer comes back in a row.
extension ClientApp {
    /// Stores the answer to a request.
    struct Answered: Handler {
        static let id = "client.answered"
        var ticket: String

        func run(_ call: borrowing Call<IQReply>) throws {
            let failure: String? =
                switch call.outcome {
                case .result: nil
                case .error(let error): error.condition.rawValue.prefix(bytes: ForeignBounds.condition).string
                case .timeout: "timed-out"
                }
            try ClientApp.store(Answer(failure: failure), to: ticket, in: call.step)
        }
    }

    /// Stores whether a room lets the account in, and under which nickname.
    struct Entered: Handler {
        static let id = "client.entered"
        var ticket: String

        func run(_ call: borrowing Call<RoomJoined>) throws {
            let failure: String? =
                switch call.outcome {
                case .joined: nil
                case .refused(let error):
                    error.condition.rawValue.prefix(bytes: ForeignBounds.condition).string
                case .timedOut: "timed-out"
                case .abandoned: "abandoned"
                }
            try ClientApp.store(Answer(value: call.nick.string, failure: failure), to: ticket, in: call.step)
        }
    }

    /// Stores that there will be no answer.
    struct Unanswered: Handler {
        static let id = "client.unanswered"
        var ticket: String

        func run(_ call: borrowing Call<Invalidation>) throws {
            try ClientApp.store(Answer(failure: "\(call.reason)"), to: ticket, in: call.step)
        }
    }

    /// An answer, for the process that waits for it.
    struct Answer {
        var value: String?
        /// The condition of an error, or another word; nil for success.
        var failure: String?
    }

    /// An answer that nobody has taken in this time is of a process that was killed.
    private static let longestWait = Duration.seconds(86_400)

    fileprivate static func store(_ answer: Answer, to ticket: String, in step: borrowing Step) throws {
        let now = step.now
        try step.execute("DELETE FROM answered WHERE at < ?", now - longestWait)
        try step.execute(
            "INSERT INTO answered(ticket, value, failure, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            ticket,
            answer.value, answer.failure, now)
    }
}

extension Client {
    /// The wait between two looks for an answer: the process that stores it notifies its own listeners only.
    private static let pause = Duration.milliseconds(50)

    /// Waits for an answer that the process with the stream stores.
    func answer(to ticket: String) async throws -> ClientApp.Answer {
        while true {
            let answer = try await account.perform { step in
                try step.first("DELETE FROM answered WHERE ticket = ? RETURNING value, failure", ticket) {
                    ClientApp.Answer(value: $0.optionalText(0), failure: $0.optionalText(1))
                }
            }
            if let answer { return answer }
            try await Task.sleep(for: Self.pause)
        }
    }

    /// Performs an operation over the stream of whatever process has one.
    ///
    /// - Throws: ``CommandFailure`` with the condition of an error.
    func performAnywhere(_ operation: AccountOperation<IQReply, Void>) async throws {
        let ticket = StanzaID.random()
        try await account.send(
            operation, then: ClientApp.Answered(ticket: ticket).durable,
            orElse: ClientApp.Unanswered(ticket: ticket).durable)
        if let failure = try await answer(to: ticket).failure { throw RequestRefused(condition: failure) }
    }
}

/// The refusal of a request that another process may have sent.
struct RequestRefused: Error, CustomStringConvertible {
    let condition: String
    var description: String { "the request was refused (\(VisibleText(condition)))" }
}
