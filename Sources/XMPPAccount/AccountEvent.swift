import Handlers
public import XMPPCore

/// Event of an account's stream, for the running program.
///
/// ```swift
/// for await event in account.events {
///     switch event {
///     case .bound(let jid), .resumed(let jid): print("connected as \(jid)")
///     case .stopped(let error): print(error)
///     default: break
///     }
/// }
/// ```
public enum AccountEvent: Sendable {
    /// A new session: roster, rooms and subscriptions must be asked for again.
    case bound(JID)
    /// The server manages the stream (XEP-0198).
    ///
    /// It keeps the session for so long after the stream broke. Nil when it did not say how long, zero when the session cannot be
    /// resumed.
    case enabled(window: Duration?)
    /// The server does not keep count: what was sent may be lost with the stream. The error is why it refused; nil when it
    /// does not offer stream management.
    case notEnabled(StanzaError?)
    /// Element `<enabled/>`, `<resumed/>` or `<failed/>` of the server (XEP-0198 sections 3 and 5).
    ///
    /// After the event that it caused. Its ids are as secret as the session.
    case streamManagementAnswered(Element)
    /// The session was resumed. Nothing was lost and nothing needs to be requested again. The stanzas that the server had
    /// received follow as ``acknowledged(_:)``.
    case resumed(JID)
    /// The stream broke; the session waits to be resumed.
    case suspended(AccountError)
    /// The stream is not open. The next attempt follows after this time.
    case retrying(after: Duration, reason: any Error)
    /// The server keeps the session no longer; why, if it said so. Requests sent in it were invalidated; messages will be
    /// sent again.
    case sessionLost(StanzaError?)
    /// An ack request was sent. Those of the keep-alive cause no event.
    case acknowledgementRequested
    /// The server took responsibility for these stanzas, in the order in which they were sent. Only those that have an id
    /// or a key.
    case acknowledged([AcknowledgedStanza])
    /// The server refused a waiting stanza because of its size. Its handlers were invalidated.
    case refused(AcknowledgedStanza, reason: String)
    /// A stanza was counted but could not be understood.
    case ignored(Element, reason: String)
    /// A handler did not run to its end: it is retried later, parked, quarantined or invalidated, with what it was called
    /// with. Its stored name, what it was called with (such as "message m1"), and why.
    case unfinished(handler: String, call: String, reason: String)
    /// A module failed with what arrived or with its beginning. What it did in that step is undone.
    case moduleFailed(String, any Error)
    /// Event of a module; see ``Account/events(of:dropped:)``.
    case module(any ModuleEvent)
    /// This listener was too slow: `count` events that were at this place of its sequence were dropped.
    case dropped(count: Int)
    /// Another process asked for the stream and gets it.
    case handedOver
    /// The account stopped for good; see the error.
    case stopped(AccountError)
}

extension AccountEvent {
    /// The event of a call that did not run to its end; nil for one that did.
    ///
    /// - Parameter call: What the handler was called with, in a few words.
    init?<Context>(
        _ disposition: Disposition, _ handler: HandlerID<Context>, _ call: String, in step: borrowing Step
    ) throws(HandlerError) {
        guard let reason = disposition.reason else { return nil }
        let name = try step.status(of: handler)?.name
        self = .unfinished(handler: name ?? "\(handler)", call: call, reason: reason)
    }
}
