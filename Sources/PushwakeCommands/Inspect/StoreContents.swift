package import Handlers

/// Everything that `inspect` shows of a store, at one moment.
///
/// Ages and remaining times are in milliseconds. A remaining time is negative if it has passed and no process has acted on it yet.
/// Nothing in it is secret: arguments are masked, and the content of stanzas is not shown.
package struct StoreContents: Codable {
    /// A list whose first rows are shown.
    package struct Rows<Row: Codable>: Codable {
        /// The number of all rows.
        package var count: Int64
        package var shown: [Row]
    }

    /// A process that has the store open. On PostgreSQL it is a node, also one that died and was not recovered yet.
    package struct Process: Codable {
        /// The slot of the process, or the number of the node.
        package var slot: Int
        /// Nil for a node.
        package var pid: Int32?
        /// `running`, `stopped`, or `unknown` if this machine cannot tell; of a node `alive`, `late` or `dead`.
        package var state: String
        /// The handler that the process currently runs.
        package var handler: Int64?
        /// The `application_name` of a node; nil if it has no connection.
        package var application: String?
        /// The network address of a node's machine; nil if it is not known.
        package var address: String?
        /// By how much the clock of a node's machine is ahead of the server's; nil if that is not known.
        package var clockAhead: Int64?
    }

    /// A process of the server that holds the lock for which the steps of all nodes wait.
    package struct StepLock: Codable {
        /// Its id on the server's machine.
        package var pid: Int32
        /// The `application_name` of its connection.
        package var application: String?
        /// The network address of its client; nil if it is not known.
        package var address: String?
        /// The number of steps that wait for the lock.
        package var waiting: Int
    }

    package struct Account: Codable {
        package var jid: String
        package var ownership: Ownership
        package var session: Session
    }

    /// The ownership of an account.
    package struct Ownership: Codable {
        package var epoch: Int64
        /// `main` or `worker`; nil if the ownership was given up.
        package var owner: String?
        /// The slot of the owner's process, or the number of its node; nil if it has died, or gave the account up.
        package var slot: Int?
        /// The process of the owner; nil if it has died, gave the account up, or is a node.
        package var pid: Int32?
        /// The state of that process or node.
        package var state: String?
    }

    /// The session of XEP-0198.
    package struct Session: Codable {
        /// The number of the session, from 1; 0 before the first.
        package var number: Int64
        package var boundAs: String?
        /// Whether the session had a stream at the last write to the store. A killed process leaves it true.
        package var hasStream: Bool
        package var isResumable: Bool
        /// The time for which the server keeps it without a stream; nil if the server did not say.
        package var window: Int64?
        /// The time since the session was last known to be alive.
        package var age: Int64?
        package var received: Int64
        package var acknowledged: Int64
        /// Stanzas that arrived and are not processed yet.
        package var deferred: Int64
        package var timesBound: Int64
        package var timesResumed: Int64
    }

    /// A request that waits for its answer.
    package struct Request: Codable {
        package var account: String
        package var id: String
        /// The address of the peer; nil for the own account.
        package var peer: String?
        package var row: Int64
        package var handler: String
        package var age: Int64
        /// The remaining connected time; nil if the answer has arrived and is processed later.
        package var connectedLeft: Int64?
        /// The session in which it was sent; nil if it was not sent.
        package var session: Int64?
    }

    /// A handler that a runner calls or expires.
    package struct Timer: Codable {
        package enum Kind: String, Codable {
            /// The handler is called at its time.
            case timer
            /// The handler is called repeatedly.
            case periodic
            /// A call that failed or was not possible yet is retried.
            case retry
            /// The handler ends at that time if it was not called.
            case deadline
        }

        package var row: Int64
        package var handler: String
        package var arguments: String
        package var kind: Kind
        /// Remaining time by the wall clock; nil if only connected time counts.
        package var left: Int64?
        /// Remaining connected time; nil if only the wall clock counts.
        package var connectedLeft: Int64?
        /// Nil for a timer that follows a calendar.
        package var period: Int64?
        /// The calendar, such as `'0 9 * * *' in UTC`; nil for a timer without one.
        package var calendar: String?
        package var attempts: Int
        package var reason: String?
    }

    /// A lane with limits or handlers.
    package struct Lane: Codable {
        package var name: String
        /// The maximum number of handlers that run at the same time; nil for any number.
        package var concurrency: Int?
        /// The maximum number of starts in a period, such as `100 in 1 min`; nil for any number.
        package var rate: String?
        package var running: Int
        package var waiting: Int
        /// The number of handlers that were not called, wait for their next attempt, or for a repair.
        package var away: Int
        /// The reason why no handler starts, while some wait; else nil.
        package var why: String?
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
        /// The session that may have sent it; nil if it was never written to a socket.
        package var session: Int64?
        /// The handler that is called when the server acknowledges it.
        package var handler: String?
    }

    /// A handler that has not ended.
    package struct Handler: Codable {
        package var row: Int64
        /// The row of the first handler of its chain.
        package var trace: Int64
        package var handler: String
        package var version: Int
        package var state: HandlerStatus.State
        package var key: String?
        package var arguments: String
        /// The reason why it has not ended, as a sentence without its subject.
        package var why: String
        /// The time since it was bound.
        package var age: Int64
        /// The time since the process that runs it started to; nil while no process runs it.
        package var runs: Int64?
        package var attempts: Int
        package var deaths: Int
        package var reason: String?
        /// The size of a quarantined call of a standing handler, in bytes; nil for a handler itself.
        package var size: Int64?
    }

    /// Quarantined calls of a standing handler that were dropped in favor of newer ones.
    package struct Dropped: Codable {
        package var handler: String
        package var calls: Int
        package var bytes: Int64
        /// The time since the last one was dropped.
        package var age: Int64
    }

    package struct Named: Codable {
        package var handler: String
        package var count: Int64
    }

    /// Events of one name.
    package struct NamedEvents: Codable {
        package var event: String
        package var count: Int64
    }

    package struct Ending: Codable {
        package var row: Int64
        package var handler: String
        package var outcome: String
        package var reason: String?
        package var key: String?
        /// The row of the first handler of its chain.
        package var trace: Int64
        package var age: Int64
        /// Why it failed, and the code of that error.
        package var error: String?
        package var code: String?
    }

    package var store: String
    package var summary: Summary
    package var processes: [Process]
    /// Nil if nobody holds the lock at this moment, and for a file.
    package var stepLock: StepLock?
    package var accounts: [Account]
    package var requests: Rows<Request>
    package var timers: Rows<Timer>
    package var lanes: Rows<Lane>
    package var outbox: Rows<Stanza>
    package var running: Rows<Handler>
    package var parked: Rows<Handler>
    package var quarantined: Rows<Handler>
    /// Quarantined calls that were dropped since the store was created, by the name of the handler.
    package var dropped: [Dropped]
    /// Handlers that wait to be called, by name.
    package var pending: [Named]
    /// Handlers that stay after a call, by name.
    package var standing: [Named]
    /// All handlers that have not ended, oldest first.
    package var handlers: Rows<Handler>
    /// The number of events that the program has not consumed.
    package var events: Int64
    /// The number of these events, by name.
    package var namedEvents: [NamedEvents]
    /// The number of ended handlers, by outcome.
    package var endings: [String: Int64]
    /// The last endings, newest first.
    package var lastEndings: [Ending]
}
