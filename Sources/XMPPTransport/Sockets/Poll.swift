import Platform

/// What ended a wait.
package enum WaitResult: Hashable, Sendable {
    /// Something can be read or written.
    case ready
    /// The deadline passed.
    case timedOut
    /// The interrupting descriptor became readable.
    case interrupted
}

/// poll(2) with a deadline and an interrupting descriptor.
enum Poll {
    /// Waits until one of `entries` has an event, the deadline passes or `interrupt` becomes readable.
    ///
    /// A signal does not end the wait; whoever wants that writes to the interrupting descriptor in its
    /// handler. The interrupting descriptor wins over everything else and is not read from.
    static func wait(
        _ entries: inout [PollEntry], until deadline: Deadline, interrupt: Int32?
    ) throws(TransportError) -> WaitResult {
        if let interrupt { entries.append(PollEntry(interrupt)) }
        defer { if interrupt != nil { entries.removeLast() } }
        while true {
            let count: Int
            do throws(Errno) {
                count = try PollEntry.wait(&entries, milliseconds: deadline.pollMilliseconds)
            } catch {
                throw TransportError(
                    .systemFailure, "Waiting for the network failed.", cause: error.detail)
            }
            if interrupt != nil, entries[entries.count - 1].isReady { return .interrupted }
            if count > 0 { return .ready }
            if deadline.isPassed { return .timedOut }
        }
    }
}
