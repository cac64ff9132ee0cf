import Platform

/// Finds the process inside a transaction of a store in the kernel's list of locks, without opening a file.
enum StoreLock {
    /// The byte of SQLite's shared memory file that a writer of the log locks (WAL_WRITE_LOCK).
    private static let writeByte = "120"

    static func isHeldForWriting(_ path: String, by processID: Int32) -> Bool {
        guard let status = try? FileStatus(path + "-shm") else { return false }
        // For example: 4: POSIX  ADVISORY  WRITE 4711 fe:00:131090 120 120
        return KernelFile.text("/proc/locks").split(separator: "\n").contains { line in
            let words = line.split(separator: " ")
            return words.count > 7 && words[1] == "POSIX" && words[3] == "WRITE" && words[4] == "\(processID)"
                && words[5].hasSuffix(":\(status.inode)") && words[6] == writeByte
        }
    }
}
