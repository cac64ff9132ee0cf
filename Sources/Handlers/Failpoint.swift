#if DEBUG || Failpoints
    import Platform
    import Synchronization
#endif

/// A named place in the code at which a test makes the process kill itself, stop itself, or throw.
///
/// Present in debug builds and with the package trait `Failpoints`, and then only when the environment variable
/// `HANDLERS_FAILPOINT=name[:action[:nth]]` names one (`action`: `kill`, `stop` or `error`; `nth` from 1).
/// In other builds a hit compiles to nothing.
package enum Failpoint: String, CaseIterable, Sendable {
    /// The step's work is done, nothing is committed.
    case beforeCommit = "before-commit"
    /// The step is committed, nothing has been written to the socket.
    case afterCommit = "after-commit"
    /// A handler is about to run; its row is deleted but not committed.
    case beforeHandler = "before-handler"
    /// A handler ran; its ending is written but not committed.
    case afterHandler = "after-handler"
    /// An invalidation is about to run.
    case beforeInvalidation = "before-invalidation"
    /// A handler failed or cannot run here; its row is not yet quarantined, parked or scheduled again.
    case beforeQuarantine = "before-quarantine"
    /// A row that is due is about to be called, expired or leased.
    case beforeDue = "before-due"
    /// An async handler is leased and committed; it has not started.
    case afterLease = "after-lease"
    /// An async handler is about to end; its closing step has not started.
    case beforeClosing = "before-closing"
    /// Quarantined and parked handlers are about to be requeued.
    case beforeRequeue = "before-requeue"
    /// A request, its outbox row and its handler are written but not committed.
    case afterBind = "after-bind"
    /// Stanzas were written to the socket.
    case afterWrite = "after-write"
    /// An acknowledgement is about to be written; its count is committed.
    case beforeAcknowledge = "before-ack"
    /// An acknowledgement was written.
    case afterAcknowledge = "after-ack"
    /// Stanzas arrived and were parsed; no step has started.
    case afterRead = "after-read"
    /// The owner's lock is held; the epoch is not yet raised.
    case afterLock = "after-lock"
    /// The epoch is raised and committed.
    case afterTakeover = "after-takeover"
    /// The request to resume was written.
    case afterResumeSent = "after-resume-sent"
    /// The session was resumed and what the server acknowledged is committed; nothing was sent again.
    case afterResumed = "after-resumed"
    /// A lost session was settled: requests ended, messages kept; committed.
    case afterSessionLost = "after-session-lost"
    /// A new session was bound and committed.
    case afterBound = "after-bound"
    /// A request ran out of time; its ending is not committed.
    case beforeTimeout = "before-timeout"
    /// The owner is about to give the stream back.
    case beforeRelease = "before-release"

    #if DEBUG || Failpoints
        package struct Hit: Error, CustomStringConvertible {
            package let description: String
        }

        private struct Armed {
            let name: String
            let action: String
            let nth: Int
        }

        /// Read once at first use: the environment does not change while a process runs.
        private static let armed: Armed? = {
            guard let text = ThisProcess.environment("HANDLERS_FAILPOINT") else { return nil }
            let parts = text.split(separator: ":").map(String.init)
            return Armed(
                name: parts.first ?? "", action: parts.count > 1 ? parts[1] : "kill",
                nth: parts.count > 2 ? Int(parts[2]) ?? 1 : 1)
        }()

        private static let hits = Atomic<Int>(0)

        package func hit() throws { try Self.hit(named: rawValue) }

        /// Marks a place in a module that has its own names.
        package static func hit(named name: String) throws {
            guard let armed = Self.armed, armed.name == name else { return }
            guard Self.hits.add(1, ordering: .relaxed).newValue == armed.nth else { return }
            switch armed.action {
            case "stop": ThisProcess.stop()
            case "error": throw Hit(description: "the failpoint \(name) was asked to fail")
            default: ThisProcess.kill()
            }
        }
    #else
        @inline(__always) package func hit() throws {}
        @inline(__always) package static func hit(named name: String) throws {}
    #endif
}
