import FoundationEssentials
import Glibc
import Platform

/// The state of processes as the kernel reports it.
enum ProcessState {
    /// Returns `running`, `stopped` (SIGSTOP, or a debugger), or `unknown` if no process has that id.
    static func of(_ pid: Int32) -> String {
        guard let state = fields(of: pid).first else { return "unknown" }
        return state == "T" || state == "t" ? "stopped" : "running"
    }

    /// Returns when a process started, in ticks of this boot; empty if no process has that id. It tells a process from a later one
    /// with the same id.
    static func started(_ pid: Int32) -> String { fields(of: pid).dropFirst(19).first.map(String.init) ?? "" }

    /// The fields of `/proc/PID/stat` after the name, which is in parentheses and may itself contain some.
    private static func fields(of pid: Int32) -> [Substring] {
        guard let text = try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8) else { return [] }
        return text.split(separator: ")").last?.split(separator: " ") ?? []
    }
}
