import FoundationEssentials
import Glibc
import Platform
import Synchronization

/// A control group for one worker. The kernel kills the worker when it needs more memory than the group's limit.
///
/// The limit counts memory that the kernel cannot reclaim: anonymous memory, and the kernel's memory for the process. Pages of
/// files are dropped instead. So it is an additional limit to the peak of physical memory that ``WorkerBudget`` watches.
package final class MemoryGroup: Sendable {
    /// The interfaces of the kernel: the unified hierarchy and its predecessor.
    package enum Version: String, Sendable {
        case two = "cgroup v2"
        case one = "cgroup v1"
    }

    /// A folder in which this process may create groups with a memory limit.
    package struct Place: Sendable, Equatable {
        package var version: Version
        package var folder: String
    }

    package let version: Version
    package let folder: String
    private static let count = Atomic<Int>(0)

    /// Creates a group.
    ///
    /// - Throws: ``SimulationError`` when the system refuses.
    package init(in place: Place, mebibytes: Int) throws {
        version = place.version
        let number = Self.count.add(1, ordering: .relaxed).newValue
        folder = "\(place.folder)/pushwake-\(getpid())-\(number)"
        guard mkdir(folder, 0o755) == 0 else {
            throw SimulationError("no control group can be made in \(place.folder): error \(errno)")
        }
        let bytes = String(mebibytes << 20)
        let isLimited =
            switch version {
            case .two: write(bytes, to: "memory.max")
            case .one: write(bytes, to: "memory.limit_in_bytes")
            }
        guard isLimited else {
            rmdir(folder)
            throw SimulationError("the control group \(folder) takes no limit of memory: error \(errno)")
        }
        // Swap is forbidden, because swapped memory is not physical memory.
        _ =
            version == .two
            ? write("0", to: "memory.swap.max") : write(bytes, to: "memory.memsw.limit_in_bytes")
    }

    deinit {
        // The group becomes empty a moment after its process was reaped.
        for _ in 0..<1000 {
            if rmdir(folder) == 0 || errno != EBUSY { return }
            usleep(1000)
        }
    }

    /// Returns a command that enters the group and then runs `command`, so that every page of `command` counts.
    package func entering(_ command: [String]) -> [String] {
        ["/bin/sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", folder + "/cgroup.procs"] + command
    }

    /// Whether the kernel has killed a process of the group.
    package var hasKilled: Bool {
        let file = version == .two ? "memory.events" : "memory.oom_control"
        guard let text = try? String(contentsOfFile: "\(folder)/\(file)", encoding: .utf8) else {
            return false
        }
        return text.split(separator: "\n").contains { line in
            let words = line.split(separator: " ")
            return words.first == "oom_kill" && words.last != "0"
        }
    }

    private func write(_ text: String, to file: String) -> Bool {
        let descriptor = open("\(folder)/\(file)", O_WRONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return Array(text.utf8).withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) } > 0
    }

    // MARK: Folders

    /// The folder in which this process may create such groups. It is nil without permission: it needs root, or a delegated
    /// subtree.
    package static let place: Place? = find(
        groups: KernelFile.text("/proc/self/cgroup"), mounts: KernelFile.text("/proc/self/mounts")
    ).first { (try? MemoryGroup(in: $0, mebibytes: 1024)) != nil }

    /// Returns the candidate folders, best first.
    ///
    /// - Parameters:
    ///   - groups: Lines such as `0::/user.slice/a.scope` and `4:memory:/a`.
    ///   - mounts: Lines such as `cgroup2 /sys/fs/cgroup cgroup2 rw,…`.
    package static func find(groups: String, mounts: String) -> [Place] {
        let own = groups.split(separator: "\n").map {
            $0.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
        }.filter { $0.count == 3 }
        let mounted = mounts.split(separator: "\n").map { $0.split(separator: " ") }.filter { $0.count > 3 }
        var places: [Place] = []
        if let path = own.first(where: { $0[1].isEmpty })?[2],
            let root = mounted.first(where: { $0[2] == "cgroup2" })?[1]
        {
            // Under cgroup v2, a group with processes cannot have subgroups with a memory limit. So the new group is a sibling of
            // the own group. Only the root may have both.
            let parent = path.lastIndex(of: "/").map { path[..<$0] } ?? ""
            places.append(Place(version: .two, folder: String(root + (path == "/" ? "" : parent))))
        }
        if let path = own.first(where: { $0[1].split(separator: ",").contains("memory") })?[2],
            let root = mounted.first(where: {
                $0[2] == "cgroup" && $0[3].split(separator: ",").contains("memory")
            })?[1]
        {
            places.append(Place(version: .one, folder: String(root + (path == "/" ? "" : path))))
        }
        return places
    }
}
