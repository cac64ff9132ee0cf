package import Handlers
import XMPPCore

/// Action for a handler whose request was not answered in time.
public enum RequestTimeoutPolicy: Int64, Hashable, Sendable {
    /// The handler is called with an error `remote-server-timeout`, made here.
    case call = 0
    /// The handler is invalidated with reason `timed-out`.
    case invalidate = 1
}

// Endings of requests that got no answer. Each removes the row and ends the handler in the same step.
extension PendingIQTable {
    /// Ends requests whose deadline has passed, oldest deadline first.
    ///
    /// - Parameters:
    ///   - connectedTime: The account's connected time.
    ///   - limit: The most to end, so that a step stays short.
    ///   - environment: The environment of the handlers.
    ///   - step: The step.
    ///   - reply: The context of a handler that is called.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    package func expire<Reply: Sendable>(
        connectedTime: Duration, limit: Int, environment: any HandlerEnvironment, in step: borrowing Step,
        reply: (Request) -> Reply
    ) throws {
        for request in try claimExpired(connectedTime: connectedTime, limit: limit, in: step)
        where try step.waits(request.handler) {
            try Failpoint.beforeTimeout.hit()
            switch request.timeoutPolicy {
            case .call: try step.endAlone(HandlerID(of: request.handler), .timeout, with: reply(request))
            case .invalidate:
                try step.invalidateAlone(request.handler, reason: .timedOut, environment: environment)
            }
        }
    }

    /// Invalidates requests of a lost session, oldest handler first.
    ///
    /// - Parameters:
    ///   - session: The session's number.
    ///   - reason: The reason for the handlers.
    ///   - limit: The most to end, so that a step stays short.
    ///   - environment: The environment of the handlers.
    ///   - step: The step.
    /// - Returns: The number of requests that were ended; 0 when none is left.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    package func abandon(
        session: Int64, reason: InvalidationReason, limit: Int, environment: any HandlerEnvironment,
        in step: borrowing Step
    ) throws -> Int {
        let requests = try claimLost(session: session, limit: limit, in: step)
        try invalidate(requests, reason: reason, environment: environment, in: step)
        return requests.count
    }

    /// Invalidates requests of any session with reason `logout`, oldest handler first.
    ///
    /// - Parameters:
    ///   - last: The last handler of the call before; moved to the last one of this call.
    ///   - newest: The last handler to end; requests bound later stay.
    ///   - limit: The most to end, so that a step stays short.
    ///   - environment: The environment of the handlers.
    ///   - step: The step.
    /// - Returns: The number of requests that were ended; 0 when none is left.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    package func abandonAll(
        after last: inout AnyHandlerID, upTo newest: AnyHandlerID, limit: Int,
        environment: any HandlerEnvironment, in step: borrowing Step
    ) throws -> Int {
        let requests = try claimAny(boundAfter: last, upTo: newest, limit: limit, in: step)
        last = requests.last?.handler ?? last
        try invalidate(requests, reason: .logout, environment: environment, in: step)
        return requests.count
    }

    /// Cancels a request, or the one that continues its operation: the handler is invalidated with reason `cancelled`.
    ///
    /// - Parameters:
    ///   - id: The id under which the first request was sent.
    ///   - overrides: Call-time arguments for the invalidation handler.
    ///   - environment: The environment of the handlers.
    ///   - step: The step.
    /// - Returns: The request; nil when none is pending.
    /// - Throws: ``/Handlers/HandlerError`` when the store fails.
    package func cancel(
        id: ForeignText, overriding overrides: Record = [:], environment: any HandlerEnvironment,
        in step: borrowing Step
    ) throws -> Request? {
        guard let request = try claim(id: id, in: step) else { return nil }
        try step.invalidate(
            request.handler, reason: .cancelled, overriding: overrides, environment: environment)
        return request
    }

    private func invalidate(
        _ requests: [Request], reason: InvalidationReason, environment: any HandlerEnvironment,
        in step: borrowing Step
    ) throws {
        for request in requests where try step.waits(request.handler) {
            try step.invalidateAlone(request.handler, reason: reason, environment: environment)
        }
    }
}
