/// Everything that `inspect` shows of a store, as it was at one moment.
///
/// Ages and remaining times are in milliseconds; a time left is negative when it has run out and nobody has acted upon
/// it yet. Nothing in it is secret: arguments are masked, stanzas are named and not shown.
struct StoreContents: Codable {
    /// A list of which the first rows are shown.
    struct Rows<Row: Codable>: Codable {
        /// How many there are.
        var count: Int64
        var shown: [Row]
    }

    struct Process: Codable {
        var seat: Int
        var pid: Int32
        /// `running`, `stopped`, or `unknown` where this machine cannot tell.
        var state: String
        /// The handler that it runs at this moment.
        var handler: Int64?
    }

    struct Account: Codable {
        var jid: String
        var ownership: Ownership
        var session: Session
    }

    /// Who may write for an account.
    struct Ownership: Codable {
        var epoch: Int64
        /// `main` or `worker`; nil when it was given back.
        var owner: String?
        /// The process that holds the account's lock; nil when none does, because it died or let go.
        var pid: Int32?
        /// What that process does: `running`, `stopped` or `unknown`.
        var state: String?
    }

    /// The session of XEP-0198.
    struct Session: Codable {
        /// Counts sessions from 1; 0 before the first.
        var number: Int64
        var boundAs: String?
        /// Whether a stream carried it when the store was last written; a killed process leaves this standing.
        var hasStream: Bool
        var isResumable: Bool
        /// How long the server keeps it without a stream; nil when it did not say.
        var window: Int64?
        /// How long ago it was known to be alive.
        var age: Int64?
        var handled: Int64
        var acknowledged: Int64
        /// Stanzas that arrived and are not handled yet.
        var deferred: Int64
        var timesBound: Int64
        var timesResumed: Int64
    }

    /// A request that waits for its answer.
    struct Request: Codable {
        var account: String
        var id: String
        /// Nil for the own account.
        var peer: String?
        var row: Int64
        var handler: String
        var age: Int64
        /// Connected time that is left; nil when it is answered, and the answer is to be handled later.
        var liveLeft: Int64?
        /// The session that carries it; nil while it was not sent.
        var session: Int64?
    }

    /// A handler that a runner calls or expires.
    struct Timer: Codable {
        enum Kind: String, Codable {
            /// It is called at its time.
            case timer
            /// It is called again and again.
            case periodic
            /// A call that failed, or could not be made yet, is made then.
            case retry
            /// It ends then if nobody has called it.
            case deadline
        }

        var row: Int64
        var handler: String
        var arguments: String
        var kind: Kind
        /// Time left by the clock on the wall; nil when only live time counts.
        var left: Int64?
        /// Live time left; nil when only the clock counts.
        var liveLeft: Int64?
        var period: Int64?
        var attempts: Int
        var reason: String?
    }

    /// A stanza that the server has not acknowledged.
    struct Stanza: Codable {
        var account: String
        var seq: Int64
        /// `message`, `presence`, `request`, `reply` or `fleeting`.
        var kind: String
        var id: String?
        var bytes: Int64
        var age: Int64
        /// The session that may have carried it; nil when it was never written to a socket.
        var session: Int64?
        /// What is called when the server acknowledges it.
        var handler: String?
    }

    /// A handler that runs under a lease, is parked or in quarantine.
    struct Handler: Codable {
        var row: Int64
        var handler: String
        var version: Int
        var arguments: String
        var age: Int64
        var attempts: Int
        var deaths: Int
        var reason: String?
        /// Bytes that are kept of a call of a standing handler; nil for a handler itself.
        var size: Int64?
    }

    /// Quarantined calls of a standing handler that made way for newer ones.
    struct Dropped: Codable {
        var handler: String
        var calls: Int
        var bytes: Int64
        /// How long ago the last one was dropped.
        var age: Int64
    }

    struct Named: Codable {
        var handler: String
        var count: Int64
    }

    struct Ending: Codable {
        var row: Int64
        var handler: String
        var outcome: String
        var reason: String?
        var age: Int64
    }

    var store: String
    var processes: [Process]
    var accounts: [Account]
    var requests: Rows<Request>
    var timers: Rows<Timer>
    var outbox: Rows<Stanza>
    var running: Rows<Handler>
    var parked: Rows<Handler>
    var quarantined: Rows<Handler>
    /// Quarantined calls that were dropped since the store was made, by the name of the handler.
    var dropped: [Dropped]
    /// Handlers that wait to be called, by name.
    var pending: [Named]
    /// Handlers that stay after a call, by name.
    var standing: [Named]
    /// Events that the program has not taken.
    var events: Int64
    /// How many handlers ended, by outcome.
    var endings: [String: Int64]
    /// The last ones, newest first.
    var lastEndings: [Ending]
}
