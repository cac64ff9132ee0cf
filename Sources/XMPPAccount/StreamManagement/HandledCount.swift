package import XMPPCore

/// A count of stanzas handled on one side of a stream, modulo 2^32 (XEP-0198 section 4: "in the unlikely case that
/// the number of stanzas handled exceeds the maximum … the value SHALL be reset from 2^32-1 back to zero").
package struct HandledCount: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    package var rawValue: UInt32
    package init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Reads the `h` attribute; nil when it is no unsigned 32-bit number.
    package init?(_ text: ForeignText?) {
        guard let text, let value = UInt32(text) else { return nil }
        rawValue = value
    }

    package var description: String { String(rawValue) }

    package static func + (count: HandledCount, stanzas: Int) -> HandledCount {
        HandledCount(rawValue: count.rawValue &+ UInt32(truncatingIfNeeded: stanzas))
    }

    /// Returns the number of stanzas between an earlier count and this one, modulo 2^32.
    package func distance(from earlier: HandledCount) -> UInt32 { rawValue &- earlier.rawValue }
}

/// A handled count that cannot be true (XEP-0198 section 4, `handled-count-too-high`).
package struct HandledCountError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The count that the server claims.
    package let claimed: HandledCount
    /// The count that it had acknowledged before.
    package let acknowledged: HandledCount
    /// The number of stanzas without an ack.
    package let outstanding: Int

    /// The number of stanzas that this side has sent.
    package var sent: HandledCount { acknowledged + outstanding }

    package var description: String {
        "the server acknowledged \(claimed) stanzas, but \(sent) were sent and \(acknowledged) already acknowledged; the session is given up and a new one is bound"
    }
}
