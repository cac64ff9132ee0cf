import FoundationEssentials
import Glibc

/// What the kernel says about processes.
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

/// Who holds the locks by which the owners of a store's accounts show that they live.
///
/// Trying to take a lock would disturb one who takes it at that moment, so the kernel's list of locks is read instead.
struct OwnerLocks {
    private let store: String
    /// Process ids by the file's device and inode, as they stand in the list.
    private let holders: [String: Int32]

    init(store: String) {
        self.store = store
        let list = (try? String(contentsOfFile: "/proc/locks", encoding: .utf8)) ?? ""
        let entries = list.split(separator: "\n").compactMap { line -> (String, Int32)? in
            // 1: FLOCK  ADVISORY  WRITE 4321 fe:01:131234 0 EOF
            let words = line.split(separator: " ")
            guard words.count > 5, words[1] == "FLOCK", let pid = Int32(words[4]) else { return nil }
            return (String(words[5]), pid)
        }
        holders = Dictionary(entries, uniquingKeysWith: { first, _ in first })
    }

    /// - Returns: Nil when nobody holds it, which is so for a copy of the database.
    func holder(ofAccount account: Int64) -> Int32? {
        var status = stat()
        guard stat("\(store)-owner-\(account)", &status) == 0 else { return nil }
        let major = (status.st_dev >> 8) & 0xfff
        let minor = (status.st_dev & 0xff) | ((status.st_dev >> 12) & 0xfff00)
        return holders["\(hex(major)):\(hex(minor)):\(status.st_ino)"]
    }

    private func hex(_ number: UInt) -> String {
        let text = String(number, radix: 16)
        return text.count < 2 ? "0" + text : text
    }
}
