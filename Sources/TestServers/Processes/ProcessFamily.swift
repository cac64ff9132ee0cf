import FoundationEssentials
import Glibc
import Platform

extension ChildProcess {
    /// The ids of the processes that the child started and those that these started, also in process groups of their own.
    ///
    /// A descendant whose parent has ended is not found.
    package var descendants: [Int32] {
        var parents: [Int32: Int32] = [:]
        for name in (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? [] {
            if let id = Int32(name), let parent = ProcessStatus(of: id)?.parent { parents[id] = parent }
        }
        var found: [Int32] = []
        var generation = [processID]
        while !generation.isEmpty {
            generation = parents.filter { generation.contains($0.value) }.map(\.key)
            found += generation
        }
        return found
    }

    /// Kills the child and its descendants with SIGKILL, and waits until none of them is left.
    ///
    /// The child is stopped first, so that it starts no other process and sees none of them end.
    package func killFamilyAndWait() {
        let deadline = ContinuousClock.now + .seconds(10)
        if signal(SIGSTOP) {
            while !isStopped, isRunning, ContinuousClock.now < deadline { usleep(100) }
        }
        let descendants = descendants
        for id in descendants { kill(id, SIGKILL) }
        killAndWait()
        // They are no children of this process, so no event reports their end.
        for id in descendants {
            while ProcessStatus(of: id)?.isRunning == true, ContinuousClock.now < deadline { usleep(100) }
        }
    }
}

/// What the kernel reports about a process in `/proc/PID/stat`.
private struct ProcessStatus {
    let parent: Int32
    private let state: Substring

    /// Nil when there is no such process.
    init?(of id: Int32) {
        guard let line = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8),
            // The name is in parentheses and may contain any character.
            let fields = line.split(separator: ")").last?.split(separator: " "), fields.count > 1,
            let parent = Int32(fields[1])
        else { return nil }
        self.parent = parent
        state = fields[0]
    }

    /// Whether it has not ended. A process that has ended stays as a zombie until its parent has reaped it.
    var isRunning: Bool { state != "Z" && state != "X" }
}
