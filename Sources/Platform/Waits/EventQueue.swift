import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Waits for many descriptors, in a time that does not grow with their number.
package final class EventQueue: Sendable {
    /// An event that was found.
    package struct Event {
        package let descriptor: Int32
        /// The number with which the descriptor was armed.
        package let key: UInt32
        /// The events that were found; unnamed ones are errors.
        package let found: PollEvents
    }

    /// The most events that one wait finds.
    private static let limit = 64

    private let descriptor: Int32

    package init() throws(Errno) {
        descriptor = dh_events_make()
        guard descriptor >= 0 else { throw Errno.current }
    }

    deinit { close(descriptor) }

    /// Waits for the next event of a descriptor, which is then found once.
    package func arm(_ entry: PollEntry, key: UInt32) throws(Errno) {
        guard
            dh_events_arm(
                descriptor, entry.descriptor, UInt32(UInt16(bitPattern: entry.wanted.rawValue)), key) == 0
        else { throw Errno.current }
    }

    /// Waits for a descriptor no longer.
    package func remove(_ descriptor: Int32) { dh_events_remove(self.descriptor, descriptor) }

    /// Waits for events.
    ///
    /// - Parameter milliseconds: How long at most; negative for ever.
    /// - Returns: Some of the events; none when the time is over, or when a signal ended the wait.
    package func wait(milliseconds: Int32) -> [Event] {
        var found = [dh_event](repeating: dh_event(), count: Self.limit)
        let count = Int(dh_events_wait(descriptor, &found, Int32(Self.limit), milliseconds))
        return found.prefix(max(0, count)).map {
            Event(
                descriptor: $0.descriptor, key: $0.key,
                found: PollEvents(rawValue: Int16(truncatingIfNeeded: $0.found)))
        }
    }
}
