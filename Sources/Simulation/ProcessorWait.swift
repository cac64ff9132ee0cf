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
    ///
    /// - Returns: Nil if the process has ended. Its figures may be gone already, and say nothing about how long it lived.
    init?(of processID: Int32) {
        let folder = "/proc/\(processID)/task"
        let threads = ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [])
            .compactMap { Self.thread(in: "\(folder)/\($0)") }
        guard !threads.isEmpty else { return nil }
        let ran = threads.reduce(0) { $0 + $1.ran }
        longest = .nanoseconds(max(0, threads.map { $0.waited - (ran - $0.ran) }.max() ?? 0))
        used = .nanoseconds(ran)
        isReady = threads.contains { $0.state == "R" }
    }

    /// - Returns: Nil if the thread has ended.
    private static func thread(in folder: String) -> (ran: Int64, waited: Int64, state: Substring)? {
        let times = text(of: "\(folder)/schedstat").split(separator: " ").compactMap { Int64($0) }
        // Read last: if the thread still exists, the figures before were its own. The name before the state may contain any
        // character, and ends at the last parenthesis.
        let status = text(of: "\(folder)/stat").split(separator: ")").last?.split(separator: " ")
        guard let state = status?.first, state != "Z", state != "X" else { return nil }
        return times.count > 1 ? (times[0], times[1], state) : (0, 0, state)
    }

    private static func text(of file: String) -> String {
        (try? String(contentsOfFile: file, encoding: .utf8)) ?? ""
    }
}
