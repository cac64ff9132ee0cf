import FoundationEssentials

/// The time that a process has waited for a processor that others used, as the kernel knows it at one moment.
struct ProcessorWait {
    /// The longest wait of a thread that it has now, without what its other threads used meanwhile; zero where the system does
    /// not tell. Threads that have ended are not counted, nor the waits of two threads one after the other: it is never more
    /// than what was lost.
    let longest: Duration
    /// The total time that its threads used.
    let used: Duration
    /// Whether a thread is ready to run. A wait that has not ended yet is in no figure.
    let isReady: Bool

    /// Reads what `schedstat` says of each thread: how long it ran, and how long it was ready to run and did not, in
    /// nanoseconds.
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
        // The name before the state may hold anything, but the last parenthesis is its end.
        return status.split(separator: ")").last?.split(separator: " ").first == "R"
    }
}
