import Handlers
import XMPPAccount
import XMPPCore

// The roster's own handlers. Their ids and arguments are stored: they change only with an alias or a version.

/// Takes the roster in.
struct RosterFetched: Handler {
    static let id = "roster.fetched"
    /// Later the roster would be older than what was pushed since.
    static let retry = RetryPolicy.never
    /// The session in which it was asked for.
    var session: Int64

    func run(_ call: borrowing Call<IQReply>) throws {
        guard try call.account.sessionNumber(in: call.step) == session else { return }
        try RosterUpdate(call.account).fetched(call.outcome, in: call.step)
    }
}

/// The server has taken a step of a subscription; it need not be sent again.
struct SubscriptionSent: Handler {
    static let id = "roster.subscription-sent"
    var row: Int64

    func run(_ call: borrowing Call<StanzaAcknowledged>) throws {
        _ = try RosterUpdate(call.account).subscriptions.remove(row: row, in: call.step)
    }
}

/// Repeats a step of a subscription after its session was lost, as the server may not have received it: the next one
/// carries it again, which changes nothing if it did.
struct SubscriptionUnsent: Handler {
    static let id = "roster.subscription-unsent"
    var row: Int64

    func run(_ call: borrowing Call<Invalidation>) throws {
        let update = RosterUpdate(try call.context.account)
        if [.sessionLost, .bound].contains(call.reason) {
            return try update.subscriptions.lose(row: row, in: call.step)
        }
        let stanza = try update.subscriptions.remove(row: row, in: call.step)
        // Without stream management that the socket took it is all that can be known.
        guard call.reason != .neverAcknowledged, let stanza, stanza.type == .subscribe else { return }
        try update.abandon(stanza.jid, call.reason, in: call.step)
    }
}
