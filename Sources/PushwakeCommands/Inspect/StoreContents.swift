/// Everything that `inspect` shows of a store, as it was at one moment.
///
/// Ages and remaining times are in milliseconds; a remaining time is negative when it has passed and no process
/// has acted on it yet. Nothing in it is secret: arguments are masked, stanzas are named and not shown.
package struct StoreContents: Codable {
    /// A list of which the first rows are shown.
    package struct Rows<Row: Codable>: Codable {
        /// The number of them.
        package var count: Int64
        package var shown: [Row]
    }

    package struct Process: Codable {
        package var slot: Int
        package var pid: Int32
        /// `running`, `stopped`, or `unknown` where this machine cannot tell.
        package var state: String
        /// The handler that it runs at this moment.
        package var handler: Int64?
    }

    package struct Account: Codable {
        package var jid: String
        package var ownership: Ownership
        package var session: Session
    }

    /// The ownership of an account.
    package struct Ownership: Codable {
        package var epoch: Int64
        /// `main` or `worker`; nil when it was given back.
        package var owner: String?
        /// The process that holds the account's lock; nil when none does, because it died or let go.
        package var pid: Int32?
        /// The state of that process: `running`, `stopped` or `unknown`.
        package var state: String?
    }

    /// The session of XEP-0198.
    package struct Session: Codable {
        /// Counts sessions from 1; 0 before the first.
        package var number: Int64
        package var boundAs: String?
        /// Whether a stream carried it when the store was last written; a killed process leaves this standing.
        package var hasStream: Bool
        package var isResumable: Bool
        /// The time for which the server keeps it without a stream; nil if the server did not say.
        package var window: Int64?
        /// The time since it was last known to be alive.
        package var age: Int64?
        package var received: Int64
        package var acknowledged: Int64
        /// Stanzas that arrived and are not handled yet.
        package var deferred: Int64
        package var timesBound: Int64
        package var timesResumed: Int64
    }

    /// A request that waits for its answer.
    package struct Request: Codable {
        package var account: String
        package var id: String
        /// Nil for the own account.
        package var peer: String?
        package var row: Int64
        package var handler: String
        package var age: Int64
        /// Connected time that is left; nil when it is answered, and the answer is to be handled later.
        package var connectedLeft: Int64?
        /// The session that carries it; nil while it was not sent.
        package var session: Int64?
    }

    /// A handler that a runner calls or expires.
    package struct Timer: Codable {
        package enum Kind: String, Codable {
            /// It is called at its time.
            case timer
            /// It is called again and again.
            case periodic
            /// A call that failed, or could not be made yet, is made then.
            case retry
            /// The handler ends then if it was not called.
            case deadline
        }

        package var row: Int64
        package var handler: String
        package var arguments: String
        package var kind: Kind
        /// Time left by the wall clock; nil when only connected time counts.
        package var left: Int64?
        /// Connected time left; nil when only the clock counts.
        package var connectedLeft: Int64?
        package var period: Int64?
        package var attempts: Int
        package var reason: String?
    }

    /// A stanza that the server has not acknowledged.
    package struct Stanza: Codable {
        package var account: String
        package var seq: Int64
        /// `message`, `presence`, `request`, `reply` or `fleeting`.
        package var kind: String
        package var id: String?
        package var bytes: Int64
        package var age: Int64
        /// The session that may have carried it; nil when it was never written to a socket.
        package var session: Int64?
        /// The handler that is called when the server acknowledges it.
        package var handler: String?
    }

    /// A handler that runs under a lease, is parked or in quarantine.
    package struct Handler: Codable {
        package var row: Int64
        package var handler: String
        package var version: Int
        package var arguments: String
        package var age: Int64
        package var attempts: Int
        package var deaths: Int
        package var reason: String?
        /// Bytes that are kept of a call of a standing handler; nil for a handler itself.
        package var size: Int64?
    }

    /// Quarantined calls of a standing handler that made way for newer ones.
    package struct Dropped: Codable {
        package var handler: String
        package var calls: Int
        package var bytes: Int64
        /// The time since the last one was dropped.
        package var age: Int64

        package init(handler: String, calls: Int, bytes: Int64, age: Int64) {
            (self.handler, self.calls, self.bytes, self.age) = (handler, calls, bytes, age)
        }
    }

    package struct Named: Codable {
        package var handler: String
        package var count: Int64
    }

    package struct Ending: Codable {
        package var row: Int64
        package var handler: String
        package var outcome: String
        package var reason: String?
        package var age: Int64
    }

    package var store: String
    package var processes: [Process]
    package var accounts: [Account]
    package var requests: Rows<Request>
    package var timers: Rows<Timer>
    package var outbox: Rows<Stanza>
    package var running: Rows<Handler>
    package var parked: Rows<Handler>
    package var quarantined: Rows<Handler>
    /// Quarantined calls that were dropped since the store was made, by the name of the handler.
    package var dropped: [Dropped]
    /// Handlers that wait to be called, by name.
    package var pending: [Named]
    /// Handlers that stay after a call, by name.
    package var standing: [Named]
    /// Events that the program has not taken.
    package var events: Int64
    /// The number of ended handlers, by outcome.
    package var endings: [String: Int64]
    /// The last ones, newest first.
    package var lastEndings: [Ending]
}
