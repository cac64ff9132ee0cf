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

/// The processes that hold the owner locks of a store's accounts.
///
/// An attempt to take a lock could disturb a process that takes it at that moment, so the kernel's list of locks is read.
struct OwnerLocks {
    private let store: String

    init(store: String) { self.store = store }

    /// The number of reads. The kernel builds the list while it is read, so some locks may be missing when others change.
    private static let looks = 8

    /// - Returns: Nil when no process holds it, as for a copy of the database.
    func lockOwner(ofAccount account: Int64) -> Int32? {
        var status = stat()
        guard stat("\(store)-owner-\(account)", &status) == 0 else { return nil }
        let major = (status.st_dev >> 8) & 0xfff
        let minor = (status.st_dev & 0xff) | ((status.st_dev >> 12) & 0xfff00)
        let file = "\(hex(major)):\(hex(minor)):\(status.st_ino)"
        for _ in 0..<Self.looks {
            if let lockOwner = Self.lockOwner(of: file) { return lockOwner }
        }
        return nil
    }

    /// - Parameter file: The device and inode, in the form of the list.
    private static func lockOwner(of file: String) -> Int32? {
        for line in KernelFile.text("/proc/locks").split(separator: "\n") {
            // For example: 1: FLOCK  ADVISORY  WRITE 4321 fe:01:131234 0 EOF
            let words = line.split(separator: " ")
            if words.count > 5, words[1] == "FLOCK", words[5] == file { return Int32(words[4]) }
        }
        return nil
    }

    private func hex(_ number: UInt) -> String {
        let text = String(number, radix: 16)
        return text.count < 2 ? "0" + text : text
    }
}
