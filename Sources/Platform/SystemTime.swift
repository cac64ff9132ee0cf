#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The machine's clocks.
package enum SystemTime {
    /// Nanoseconds that never go backwards; they do not advance while the machine is suspended.
    package static func monotonicNanoseconds() -> Int64 { nanoseconds(monotonic) }

    /// Nanoseconds that never go backwards; they advance while the machine is suspended, too.
    package static func bootNanoseconds() -> Int64 { nanoseconds(boot) }

    /// Nanoseconds since 1970, UTC; a user or a time server may set them back.
    package static func wallNanoseconds() -> Int64 { nanoseconds(CLOCK_REALTIME) }

    #if canImport(Darwin)
        // Its CLOCK_MONOTONIC advances while the machine is suspended.
        static var monotonic: clockid_t { CLOCK_UPTIME_RAW }
        private static var boot: clockid_t { CLOCK_MONOTONIC_RAW }
    #else
        static var monotonic: clockid_t { CLOCK_MONOTONIC }
        private static var boot: clockid_t { CLOCK_BOOTTIME }
    #endif

    private static func nanoseconds(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
