import Handlers
import Synchronization
package import XMPPCore

// Requests for code that need not survive: on the same table as all others, ended by a handler that wakes whoever waits.
extension Account {
    /// Sends an operation and waits for its answer here.
    ///
    /// For code that has nothing to do any more once its process has ended: the answer then ends the request all the
    /// same, and wakes nobody. Canceling the task cancels the request.
    ///
    /// ```swift
    /// try await account.request(.roster.set(RosterItem(juliet, name: "Juliet")))
    /// let items = try await account.request(.discoItems(of: server))
    /// ```
    ///
    /// - Parameters:
    ///   - operation: The question.
    ///   - timeout: Connected time to wait for each answer, 1 ms or more; nil for the account's setting.
    /// - Returns: The value of the operation.
    /// - Throws: `StanzaError` when the answer is an error, or the module's own error; ``AccountError`` `timedOut`,
    ///   `sessionLost`, `abandoned` when none came, `closed` when the account was closed meanwhile, `invalidStanza`,
    ///   `missingModule` or `outboxFull` when nothing was sent; `CancellationError`; ``/Handlers/HandlerError`` when the
    ///   store fails.
    @discardableResult
    public func request<Context, Value>(
        _ operation: AccountOperation<Context, Value>, timeout: Duration? = nil
    ) async throws -> Value {
        try operation.value(try await operation.reply(self, timeout))
    }

    /// Sends a request and waits for its answer here, which may be an error: for those who read more of it than its condition.
    package func reply(to iq: IQ, timeout: Duration? = nil) async throws -> IQReply {
        let token = StanzaID.random()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                guard awaited.add(token, continuation) else { return }
                let command = StepCommand(
                    run: { step in
                        let then = try Durable(AwaitedReply(token: token))
                        try self.send(
                            request: iq, then: then.orElse(Durable(AwaitedInvalidation(token: token))),
                            RequestTerms(timeout), in: step)
                    },
                    finish: { result in
                        if case .failure(let error) = result { self.awaited.end(token, .failure(error)) }
                    })
                post(.step(command)) { awaited.end(token, .failure($0)) }
            }
        } onCancel: {
            awaited.end(token, .failure(CancellationError()))
            let command = StepCommand(
                run: { step in _ = try self.cancelRequest(id: iq.id, in: step) }, finish: { _ in })
            _ = mailbox.post(.step(command))
        }
    }
}

/// Those who wait for answers in this process.
final class AwaitedReplies: Sendable {
    typealias Continuation = CheckedContinuation<IQReply, any Error>

    private struct State {
        var waiting: [String: Continuation] = [:]
        /// Those that were ended before they began to wait.
        var ended: Set<String> = []
        var isClosed = false
    }

    private let state = Mutex(State())

    /// - Returns: False if the wait is over; the continuation was resumed.
    func add(_ token: String, _ continuation: Continuation) -> Bool {
        let refusal = state.withLock { state -> (any Error)? in
            if state.isClosed { return AccountError(.closed, "the account was closed; make a new one") }
            if state.ended.remove(token) != nil { return CancellationError() }
            state.waiting[token] = continuation
            return nil
        }
        if let refusal { continuation.resume(throwing: refusal) }
        return refusal == nil
    }

    func end(_ token: String, _ result: Result<IQReply, any Error>) {
        let continuation = state.withLock { state in
            let continuation = state.waiting.removeValue(forKey: token)
            if continuation == nil, case .failure(is CancellationError) = result { state.ended.insert(token) }
            return continuation
        }
        continuation?.resume(with: result)
    }

    func endAll() {
        let waiting = state.withLock { state in
            state.isClosed = true
            defer { state.waiting = [:] }
            return state.waiting.values.map(\.self)
        }
        let error = AccountError(.closed, "the account was closed before the answer came")
        waiting.forEach { $0.resume(throwing: error) }
    }
}

/// Ends an awaited request in the store and wakes its caller, if there is one.
struct AwaitedReply: Handler {
    static let id = "xmpp.awaited-reply"
    var token: String

    func run(_ call: borrowing Call<IQReply>) throws {
        let (token, awaited, reply) = (token, call.account.awaited, call.context)
        let result: Result<IQReply, any Error> =
            switch call.outcome {
            case .result, .error: .success(reply)
            case .timeout: .failure(reply.timedOut)
            }
        call.step.afterCommit { awaited.end(token, result) }
    }
}

/// Fails the caller of a request whose answer will never arrive.
struct AwaitedInvalidation: Handler {
    static let id = "xmpp.awaited-invalidation"
    var token: String

    func run(_ call: borrowing Call<Invalidation>) throws {
        let (token, awaited) = (token, try call.context.account.awaited)
        let isLost = [.sessionLost, .bound].contains(call.reason)
        let error = AccountError(
            isLost ? .sessionLost : .abandoned,
            "the answer will never come: the request was given up (\(call.reason))")
        call.step.afterCommit { awaited.end(token, .failure(error)) }
    }
}
