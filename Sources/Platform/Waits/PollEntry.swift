#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The events that a descriptor can be polled for.
package struct PollEvents: OptionSet, Hashable, Sendable {
    package let rawValue: Int16

    package init(rawValue: Int16) { self.rawValue = rawValue }

    package static var readable: PollEvents { PollEvents(rawValue: Int16(POLLIN)) }
    package static var writable: PollEvents { PollEvents(rawValue: Int16(POLLOUT)) }
}

/// A descriptor that poll(2) waits for, and what it found.
package struct PollEntry: Sendable {
    private var entry: pollfd

    /// - Parameter descriptor: A negative one is passed over.
    package init(_ descriptor: Int32, for events: PollEvents = .readable) {
        entry = pollfd(fd: descriptor, events: events.rawValue, revents: 0)
    }

    package var descriptor: Int32 { entry.fd }
    /// The events to wait for.
    package var wanted: PollEvents { PollEvents(rawValue: entry.events) }
    /// Whether the last wait found an event, an error or the end of the other side.
    package var isReady: Bool { entry.revents != 0 }
    /// The events that the last wait found; unnamed ones are errors.
    package var found: PollEvents { PollEvents(rawValue: entry.revents) }

    /// Sets what another wait found.
    package mutating func set(found: PollEvents) {
        entry.revents = found.rawValue & (entry.events | Int16(POLLERR | POLLHUP | POLLNVAL))
    }

    /// Waits until one of `entries` is ready.
    ///
    /// - Parameter milliseconds: How long; negative for ever.
    /// - Returns: How many are ready; 0 when the time is over, or when a signal ended the wait.
    @discardableResult
    package static func wait(_ entries: inout [PollEntry], milliseconds: Int32) throws(Errno) -> Int {
        let count = entries.withUnsafeMutableBufferPointer { entries in
            // One pollfd is all that an entry holds.
            entries.withMemoryRebound(to: pollfd.self) {
                poll($0.baseAddress, nfds_t($0.count), milliseconds)
            }
        }
        if count >= 0 { return Int(count) }
        guard errno == EINTR else { throw Errno.current }
        for index in entries.indices { entries[index].entry.revents = 0 }
        return 0
    }

    /// Waits until one descriptor can be read; false when the time is over.
    package static func waitReadable(_ descriptor: Int32, milliseconds: Int32) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&entry, 1, milliseconds) == 1
    }
}
