import Glibc

/// Processor time of the calling thread: what other programs do meanwhile does not count.
enum ThreadClock {
    static var milliseconds: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }
}
