import FoundationEssentials
import Glibc
import Platform
import Synchronization

/// A control group that holds one worker, and in which the kernel kills it when it wants more memory than its limit.
///
/// What counts there is what the kernel cannot take back: anonymous memory and the kernel's own for the process. Pages of
/// files are dropped instead. So it is a limit besides the peak of physical memory that ``WorkerBudget`` looks at.
package final class MemoryGroup: Sendable {
    /// The two interfaces of the kernel: the unified hierarchy, and the one before it.
    package enum Version: String, Sendable {
        case two = "cgroup v2"
        case one = "cgroup v1"
    }

    /// A folder in which this process may make groups that limit memory.
    package struct Place: Sendable, Equatable {
        package var version: Version
        package var folder: String

        package init(version: Version, folder: String) {
            self.version = version
            self.folder = folder
        }
    }

    package let version: Version
    package let folder: String
    private static let count = Atomic<Int>(0)

    /// Makes a group.
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
        // Where there is swap, none of it: what is swapped out is no physical memory.
        _ =
            version == .two
            ? write("0", to: "memory.swap.max") : write(bytes, to: "memory.memsw.limit_in_bytes")
    }

    deinit {
        // It is empty a moment after its process has been reaped.
        for _ in 0..<1000 {
            if rmdir(folder) == 0 || errno != EBUSY { return }
            usleep(1000)
        }
    }

    /// Returns the command that puts itself into the group and then becomes `command`: from its first page on it counts.
    package func entering(_ command: [String]) -> [String] {
        ["/bin/sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", folder + "/cgroup.procs"] + command
    }

    /// Whether the kernel has killed in it.
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

    // MARK: Where

    /// The folder in which this process may make such groups; nil without permission: it needs root, or a delegated subtree.
    package static let place: Place? = find(
        groups: KernelFile.text("/proc/self/cgroup"), mounts: KernelFile.text("/proc/self/mounts")
    ).first { (try? MemoryGroup(in: $0, mebibytes: 1024)) != nil }

    /// Returns the folders that come into question, best first.
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
            // A group that holds processes has no groups below it that limit memory, so it is one beside the own one; but
            // for the root, which may have both.
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
