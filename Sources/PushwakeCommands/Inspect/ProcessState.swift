import FoundationEssentials
import Glibc
import Platform

/// The state of processes, from the kernel.
enum ProcessState {
    /// `running`, `stopped` (SIGSTOP, or a debugger), or `unknown` where there is no process of that id.
    static func of(_ pid: Int32) -> String {
        guard let text = try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8),
            // The name stands in parentheses and may hold some itself.
            let state = text.split(separator: ")").last?.split(separator: " ").first
        else { return "unknown" }
        return state == "T" || state == "t" ? "stopped" : "running"
    }
}

/// The processes that hold the locks of the owners of a store's accounts.
///
/// An attempt to take a lock could disturb a process that takes it at that moment, so the kernel's list of locks is read.
struct OwnerLocks {
    private let store: String

    init(store: String) { self.store = store }

    /// The kernel puts the list together piece by piece while it is read: where locks come and go, some may be missing.
    private static let looks = 8

    /// - Returns: Nil when nobody holds it, which is so for a copy of the database.
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

    /// - Parameter file: Its device and inode, as they stand in the list.
    private static func lockOwner(of file: String) -> Int32? {
        for line in KernelFile.text("/proc/locks").split(separator: "\n") {
            // 1: FLOCK  ADVISORY  WRITE 4321 fe:01:131234 0 EOF
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
