import CWaits
import Glibc

/// Which file a database lies in. One that was put back from a backup, copied or moved to another disk has another number.
enum FileNumber {
    /// When it was created. Its inode counts only where nobody knows that: a file that is deleted leaves its inode to the
    /// next one, new file systems begin with the same, and some give other inodes each time they are mounted.
    static func of(_ path: String) -> Int64? {
        let birth = dh_file_birth(path)
        guard birth == 0 else { return birth }
        var status = stat()
        return stat(path, &status) == 0 ? Int64(bitPattern: UInt64(status.st_ino)) : nil
    }

    /// The path from the root and without links; the path itself where there is no such file.
    static func resolved(_ path: String) -> String {
        guard let resolved = realpath(path, nil) else { return path }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}
