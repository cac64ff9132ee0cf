import FoundationEssentials

/// How long processes have waited for a processor that others used.
enum ProcessorWait {
    /// The longest wait of a thread that a process has now, without what its other threads used meanwhile; zero where the system
    /// does not tell.
    ///
    /// `schedstat` says for a thread how long it ran, and how long it was ready to run and did not, in nanoseconds. Threads that
    /// have ended are not counted, nor the waits of two threads one after the other: it is never more than what was lost.
    static func longest(of processID: Int32) -> Duration {
        let folder = "/proc/\(processID)/task"
        let threads = ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [])
            .map { times(in: "\(folder)/\($0)/schedstat") }
        let ran = threads.reduce(0) { $0 + $1.ran }
        return .nanoseconds(max(0, threads.map { $0.waited - (ran - $0.ran) }.max() ?? 0))
    }

    private static func times(in file: String) -> (ran: Int64, waited: Int64) {
        let words = ((try? String(contentsOfFile: file, encoding: .utf8)) ?? "").split(separator: " ")
        guard words.count > 1, let ran = Int64(words[0]), let waited = Int64(words[1]) else { return (0, 0) }
        return (ran, waited)
    }
}
