import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// How long tests take, for the summary of `scripts/test.py`.
///
/// The events of Swift Testing start a test when it is queued, so their times include what all tests before it took.
enum TestTimes {
    /// The file that the environment variable `TEST_TIMES` names; -1 without it.
    private static let file: Int32 =
        getenv("TEST_TIMES").map { open($0, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644) } ?? -1

    /// Adds a line with the test, its seconds by the clock and its seconds of a processor.
    ///
    /// A test with several cases has a line for each.
    static func record(_ test: Test, start: ContinuousClock.Instant, processor: Duration) {
        guard file >= 0 else { return }
        let elapsed = start.duration(to: .now)
        let line = "\(test.id)\t\(elapsed / .seconds(1))\t\(processor / .seconds(1))\n"
        // One write, which O_APPEND keeps whole beside those of other threads.
        _ = line.withCString { write(file, $0, strlen($0)) }
    }
}
