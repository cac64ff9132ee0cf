import FoundationEssentials

/// How long a process has waited for a processor that other processes used, read from the kernel at one moment.
struct ProcessorWait {
    /// A lower bound of the waiting time; zero if the system does not report it.
    ///
    /// It is the longest wait of a running thread, minus the time that the other threads used meanwhile. It excludes ended threads,
    /// and does not add waits of several threads.
    let longest: Duration
    /// The total time that its threads used.
    let used: Duration
    /// Whether a thread is ready to run. Its current wait is not yet in the figures.
    let isReady: Bool

    /// Reads `schedstat` of each thread: how long it ran, and how long it was ready but did not run, in nanoseconds.
    init(of processID: Int32) {
        let folder = "/proc/\(processID)/task"
        let threads = ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [])
            .map { "\(folder)/\($0)" }
        let times = threads.map { Self.times(in: "\($0)/schedstat") }
        let ran = times.reduce(0) { $0 + $1.ran }
        longest = .nanoseconds(max(0, times.map { $0.waited - (ran - $0.ran) }.max() ?? 0))
        used = .nanoseconds(ran)
        isReady = threads.contains { Self.isReady($0) }
    }

    private static func times(in file: String) -> (ran: Int64, waited: Int64) {
        let words = ((try? String(contentsOfFile: file, encoding: .utf8)) ?? "").split(separator: " ")
        guard words.count > 1, let ran = Int64(words[0]), let waited = Int64(words[1]) else { return (0, 0) }
        return (ran, waited)
    }

    private static func isReady(_ thread: String) -> Bool {
        let status = (try? String(contentsOfFile: "\(thread)/stat", encoding: .utf8)) ?? ""
        // The name before the state may contain any character, and ends at the last parenthesis.
        return status.split(separator: ")").last?.split(separator: " ").first == "R"
    }
}
