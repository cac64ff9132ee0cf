// The virtual clock, which the scripted server reads as well.
@_exported public import HandlersTestKit
package import Glibc

/// What the clocks show during one turn of the server.
package struct ServerTime: Hashable, Sendable {
    /// Milliseconds since 1970, UTC.
    package var wall: Int64
    /// Milliseconds that never go backwards.
    package var monotonic: Int64

    package init(wall: Int64, monotonic: Int64) {
        self.wall = wall
        self.monotonic = monotonic
    }

    /// What a clock shows now; nil for the machine's own.
    package static func now(_ clock: VirtualClock?) -> ServerTime {
        if let clock {
            return ServerTime(wall: clock.wallMilliseconds(), monotonic: clock.monotonicMilliseconds())
        }
        return ServerTime(wall: milliseconds(CLOCK_REALTIME), monotonic: milliseconds(CLOCK_MONOTONIC))
    }

    package static func milliseconds(_ clock: clockid_t) -> Int64 { nanoseconds(clock) / 1_000_000 }

    /// Nanoseconds that never go backwards, the same in all processes of a machine.
    package static var monotonicNanoseconds: Int64 { nanoseconds(CLOCK_MONOTONIC) }

    private static func nanoseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    /// The XEP-0082 form of a time in milliseconds since 1970, UTC.
    package static func stamp(_ milliseconds: Int64) -> String {
        var seconds = time_t(milliseconds / 1000)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        func padded(_ value: Int32, _ width: Int) -> String {
            let digits = String(value)
            return String(repeating: "0", count: max(0, width - digits.count)) + digits
        }
        let date = [(parts.tm_year + 1900, 4), (parts.tm_mon + 1, 2), (parts.tm_mday, 2)]
        let clock = [(parts.tm_hour, 2), (parts.tm_min, 2), (parts.tm_sec, 2)]
        return date.map(padded).joined(separator: "-") + "T" + clock.map(padded).joined(separator: ":")
            + "." + padded(Int32(milliseconds % 1000), 3) + "Z"
    }
}
