import CPlatform
import Glibc

/// Changes of the wall clock, as a descriptor that becomes readable when somebody sets the clock, and when the machine wakes from a
/// suspension. It costs nothing in between.
package final class WallClockChange: Sendable {
    package let descriptor: Int32

    package init() throws(Errno) {
        descriptor = dh_clock_watch_make()
        guard descriptor >= 0 else { throw Errno.current }
    }

    deinit { close(descriptor) }

    /// Returns whether the clock has changed since the last call; never waits.
    package func take() -> Bool { dh_clock_watch_take(descriptor) == 1 }
}
