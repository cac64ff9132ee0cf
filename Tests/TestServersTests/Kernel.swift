import FoundationEssentials
import TestSupport

/// The name and the state letter of a process, from the kernel; nil when there is no such process.
func kernelState(of processID: Int32) -> (name: String, state: Character)? {
    // The name stands in parentheses and may hold any character, so the last closing one counts.
    guard let line = try? String(contentsOfFile: "/proc/\(processID)/stat", encoding: .utf8),
        let open = line.firstIndex(of: "("), let close = line.lastIndex(of: ")"),
        let state = line[close...].dropFirst(2).first
    else { return nil }
    return (String(line[open..<close].dropFirst()), state)
}

/// Whether a process that is not our child ends in time (its new parent may not have reaped it yet).
func hasEnded(_ processID: Int32, deadline: ContinuousClock.Instant) -> Bool {
    becomesTrue(before: deadline) { kernelState(of: processID).map { $0.state == "Z" } ?? true }
}
