import Glibc

/// The processor time that this thread needs, in milliseconds: a busy machine leaves it alone.
func processorTime(_ body: () throws -> Void) rethrows -> Double {
    func now() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1000 + Double(time.tv_nsec) / 1_000_000
    }
    let start = now()
    try body()
    return now() - start
}
