import Glibc

/// Processor time of the calling thread: a busy machine leaves it alone, unlike time by a clock.
package enum ThreadTime {
    /// What `body` takes, in milliseconds.
    package static func milliseconds(of body: () throws -> Void) rethrows -> Double {
        let start = now
        try body()
        return now - start
    }

    private static var now: Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1000 + Double(time.tv_nsec) / 1_000_000
    }
}
