public import Handlers
public import XMPPAccount
public import XMPPCore

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// The context of a handler that waits for a registration's change.
///
/// ```swift
/// @Handler("push.told")
/// static func told(_ call: borrowing Call<PushAnswer>) throws {
///     if case .refused(let condition) = call.outcome { print("no push: \(condition)") }
/// }
/// ```
public struct PushAnswer: Sendable {
    /// Outcome of the handler.
    public enum Outcome: Hashable, Sendable, Codable {
        /// The server did it, or had done it in this session.
        case done
        /// The server refused, with this condition.
        case refused(condition: ForeignText)
        /// No answer came in time. The next session asks again.
        case timedOut
    }

    /// The account that asked.
    public let account: Account
    /// The push service.
    public let service: JID
    /// The node there. Nil for none, or for all of the service's that were disabled.
    public let node: ForeignText?
    /// The outcome.
    public let outcome: Outcome
}

extension PushAnswer: StoredContext, AccountContext {
    private struct Stored: Codable {
        var service: JID
        var node: String?
        var outcome: Outcome
    }

    package func stored() throws -> [UInt8] {
        try [UInt8](JSONEncoder().encode(Stored(service: service, node: node?.string, outcome: outcome)))
    }

    package init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        let stored = try JSONDecoder().decode(Stored.self, from: Data(bytes))
        self.init(
            account: try Account.serving(environment), service: stored.service,
            node: stored.node.map { ForeignText($0) },
            outcome: stored.outcome)
    }
}

// The module's own handlers. Their ids and arguments are stored: they change only with an alias or a version.

/// The server was asked to notify a service.
struct PushEnabled: Handler {
    static let id = "push.enabled"
    var service: JID
    var node: String?
    /// The program's handler.
    var then: Durable<PushAnswer>?

    func run(_ call: borrowing Call<IQReply>) throws {
        let table = PushTable(account: call.account.id)
        // The last request about a registration says what becomes of it: it may have been changed or disabled since.
        if let stored = try table.find(service, node.map { ForeignText($0) }, in: call.step),
            stored.asked == call.iq.id
        {
            let registration = stored.registration
            switch call.outcome {
            case .result:
                try table.setState(.enabled, asked: call.iq.id, in: call.step)
                call.account.report(PushChange.enabled(registration), after: call.step)
            case .error(let error):
                try table.setState(.refused(error), asked: call.iq.id, in: call.step)
                call.account.report(PushChange.notEnabled(registration, error), after: call.step)
            case .timeout: call.account.report(PushChange.notEnabled(registration, nil), after: call.step)
            }
        }
        if let then {
            try call.step.run(then, with: PushAnswer(service, node.map { ForeignText($0) }, call.context))
        }
    }
}

/// The server was asked to forget a registration, or all of a service's.
struct PushDisabled: Handler {
    static let id = "push.disabled"
    var row: Int64
    var service: JID
    var node: String?
    /// The program's handler.
    var then: Durable<PushAnswer>?

    func run(_ call: borrowing Call<IQReply>) throws {
        // A server that refuses has nothing to forget, or will not be moved by being asked again.
        if call.outcome != .timeout { try PushTable(account: call.account.id).endRemoval(row, in: call.step) }
        if let then {
            try call.step.run(then, with: PushAnswer(service, node.map { ForeignText($0) }, call.context))
        }
    }
}

extension PushAnswer {
    init(_ service: JID, _ node: ForeignText?, _ reply: IQReply) {
        let outcome: Outcome =
            switch reply.outcome {
            case .result: .done
            case .error(let error): .refused(condition: error.condition.rawValue)
            case .timeout: .timedOut
            }
        self.init(account: reply.account, service: service, node: node, outcome: outcome)
    }
}
