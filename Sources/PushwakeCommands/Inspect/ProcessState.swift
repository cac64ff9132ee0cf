import FoundationEssentials
import Glibc
import Platform

/// The state of processes as the kernel reports it.
enum ProcessState {
    /// Returns `running`, `stopped` (SIGSTOP, or a debugger), or `unknown` if no process has that id.
    static func of(_ pid: Int32) -> String {
        guard let text = try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8),
            // The name is in parentheses and may itself contain some.
            let state = text.split(separator: ")").last?.split(separator: " ").first
        else { return "unknown" }
        return state == "T" || state == "t" ? "stopped" : "running"
    }
}
