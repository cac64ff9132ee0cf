import CPlatform

/// Which file a database lies in. One that was put back from a backup, copied or moved to another disk has another number.
package enum FileNumber {
    /// When it was created. Its inode counts only where nobody knows that: a file that is deleted leaves its inode to the
    /// next one, new file systems begin with the same, and some give other inodes each time they are mounted.
    package static func of(_ path: String) -> Int64? {
        let birth = dh_file_birth(path)
        guard birth == 0 else { return birth }
        return (try? FileStatus(path)).map { Int64(bitPattern: $0.inode) }
    }
}
