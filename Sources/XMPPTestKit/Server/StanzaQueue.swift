package import XMPPCore

/// Stanzas that the client has not acknowledged, oldest first (XEP-0198 section 4).
package struct StanzaQueue: Sendable {
    /// A waiting stanza.
    package struct Entry: Sendable {
        package let element: Element
        /// When it was queued.
        package let time: Timestamp
        /// Whether it was handed to a connection before.
        package var wasSent: Bool
    }

    private var entries: [Entry] = []
    private var head = 0

    /// Below this many removed entries the rest is not moved to the front.
    private static let compactionThreshold = 1024

    package init() {}

    package var count: Int { entries.count - head }
    package var isEmpty: Bool { count == 0 }

    /// - Parameter time: When it came.
    package mutating func append(_ element: Element, time: Timestamp, wasSent: Bool) {
        entries.append(Entry(element: element, time: time, wasSent: wasSent))
    }

    /// Removes the oldest `count` entries; no more than there are.
    package mutating func removeFirst(_ count: Int) {
        head += min(count, self.count)
        if head == entries.count {
            entries.removeAll(keepingCapacity: head <= StanzaQueue.compactionThreshold)
            head = 0
        } else if head >= max(StanzaQueue.compactionThreshold, entries.count / 2) {
            entries.removeSubrange(..<head)
            head = 0
        }
    }

    /// Marks everything as sent and returns what was there, with its earlier marks.
    package mutating func markAllSent() -> [Entry] {
        let before = Array(entries[head...])
        for index in head..<entries.count { entries[index].wasSent = true }
        return before
    }

    /// Removes and returns everything.
    package mutating func removeAll() -> [Entry] {
        defer {
            entries = []
            head = 0
        }
        return Array(entries[head...])
    }
}
