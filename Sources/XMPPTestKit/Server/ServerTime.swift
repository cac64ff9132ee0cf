// The virtual clock, which the scripted server reads as well.
@_exported public import HandlersTestKit
import Platform
package import XMPPCore

/// The times of the clocks during one turn of the server.
package struct ServerTime: Hashable, Sendable {
    /// The wall clock.
    package var wall: Timestamp
    /// Milliseconds that never go backwards.
    package var monotonic: Int64

    package init(wall: Timestamp, monotonic: Int64) {
        self.wall = wall
        self.monotonic = monotonic
    }

    /// Returns the current time of a clock; nil for the machine's own.
    package static func now(_ clock: VirtualClock?) -> ServerTime {
        if let clock { return ServerTime(wall: clock.wall, monotonic: clock.monotonic.milliseconds) }
        return ServerTime(
            wall: Timestamp(milliseconds: SystemTime.wallNanoseconds() / 1_000_000),
            monotonic: monotonicMilliseconds)
    }

    /// Milliseconds that never go backwards.
    package static var monotonicMilliseconds: Int64 { monotonicNanoseconds / 1_000_000 }

    /// Nanoseconds that never go backwards, the same in all processes of a machine.
    package static var monotonicNanoseconds: Int64 { SystemTime.monotonicNanoseconds() }
}
