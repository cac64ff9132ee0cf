import Glibc

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
        _ entries: inout [pollfd], until deadline: Deadline, interrupt: Int32?
    ) throws(TransportError) -> WaitResult {
        if let interrupt { entries.append(pollfd(fd: interrupt, events: Int16(POLLIN), revents: 0)) }
        defer { if interrupt != nil { entries.removeLast() } }
        while true {
            let count = poll(&entries, nfds_t(entries.count), deadline.pollMilliseconds)
            if count < 0 {
                let number = errno
                if number == EINTR { continue }
                throw TransportError(
                    .systemFailure, "Waiting for the network failed.", cause: systemErrorText(number))
            }
            if interrupt != nil, entries[entries.count - 1].revents != 0 { return .interrupted }
            if count > 0 { return .ready }
            if deadline.isPassed { return .timedOut }
        }
    }
}
