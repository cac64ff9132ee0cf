#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The descriptors and the time that a loop waits for between two turns.
package struct Pause: Sendable {
    /// The descriptors that end the pause.
    package var entries: [PollEntry]
    /// The longest pause in milliseconds, 0 or more; nil for no limit.
    package var milliseconds: Int64?

    package init(_ entries: [PollEntry], milliseconds: Int64? = nil) {
        self.entries = entries
        self.milliseconds = milliseconds
    }

    /// The pause before a turn that can start at once.
    package static var none: Pause { Pause([], milliseconds: 0) }

    /// Ends the pause after `milliseconds` at the latest; nil for no limit.
    package mutating func limit(to milliseconds: Int64?) {
        guard let milliseconds else { return }
        self.milliseconds = min(self.milliseconds ?? .max, milliseconds)
    }

    /// Waits on the calling thread, and marks the descriptors that are ready.
    ///
    /// A wait that fails (no memory in the kernel, too many descriptors) finds nothing. It takes 10 ms, so that a loop that waits
    /// again and again leaves the processor to others; each turn looks at its time.
    package mutating func wait() {
        if entries.isEmpty && milliseconds == 0 { return }
        do {
            try PollEntry.wait(&entries, milliseconds: milliseconds.map { Int32(clamping: max(0, $0)) } ?? -1)
        } catch {
            poll(nil, 0, 10)
        }
    }
}
