import CPlatform
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Changes of the wall clock, as a descriptor that becomes readable when somebody sets the clock, and when the machine wakes from a
/// suspension. It costs nothing in between; on Darwin it is also readable once a minute.
package final class WallClockChange: Sendable {
    package let descriptor: Int32

    #if canImport(Darwin)
        /// The token of the notification, and how far the wall clock was ahead of the time that the machine ran.
        private let token: Int32
        private let offset = Mutex(WallClockChange.currentOffset)

        package init() throws(Errno) {
            var token: Int32 = -1
            descriptor = dh_clock_watch_make(&token)
            guard descriptor >= 0 else { throw Errno.current }
            self.token = token
        }

        deinit { dh_clock_watch_close(descriptor, token) }

        private static var currentOffset: Int64 {
            SystemTime.wallNanoseconds() - SystemTime.monotonicNanoseconds()
        }

        /// Returns whether the clock has changed since the last call; never waits.
        package func take() -> Bool {
            let isSet = dh_clock_watch_take(descriptor) == 1
            return offset.withLock { offset in
                let current = Self.currentOffset
                defer { offset = current }
                // A suspension stops the other clock. A time server that corrects the rate moves the two apart by 0.03 s a minute.
                return isSet || abs(current - offset) > 200_000_000
            }
        }
    #else
        package init() throws(Errno) {
            descriptor = dh_clock_watch_make()
            guard descriptor >= 0 else { throw Errno.current }
        }

        deinit { close(descriptor) }

        /// Returns whether the clock has changed since the last call; never waits.
        package func take() -> Bool { dh_clock_watch_take(descriptor) == 1 }
    #endif
}
