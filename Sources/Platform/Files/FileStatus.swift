#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The metadata of a file.
package struct FileStatus: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        case regular, socket, pipe, other
    }

    package let kind: Kind
    /// The size in bytes.
    package let size: Int64
    package let inode: UInt64
    /// When it was last written to, in nanoseconds since 1970.
    package let modified: Int64
    /// The user that owns it.
    package let owner: UInt32
    /// The number of hard links.
    package let names: Int
    /// The permission bits.
    package let permissions: UInt32

    /// Whether others than its owner have any access.
    package var isOpenToOthers: Bool { permissions & 0o077 != 0 }

    /// Looks at a name.
    ///
    /// - Parameter followsLinks: Whether to follow a link to its file.
    package init(_ path: String, followsLinks: Bool = true) throws(Errno) {
        var status = stat()
        guard (followsLinks ? stat(path, &status) : lstat(path, &status)) == 0 else { throw Errno.current }
        self.init(status)
    }

    /// Looks at an open file.
    init(of descriptor: Int32) throws(Errno) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Errno.current }
        self.init(status)
    }

    private init(_ status: stat) {
        kind =
            switch status.st_mode & S_IFMT {
            case S_IFREG: .regular
            case S_IFSOCK: .socket
            case S_IFIFO: .pipe
            default: .other
            }
        size = Int64(status.st_size)
        inode = UInt64(status.st_ino)
        #if canImport(Darwin)
            let written = status.st_mtimespec
        #else
            let written = status.st_mtim
        #endif
        let seconds = Int64(written.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
        modified = seconds.partialValue &+ Int64(written.tv_nsec)
        owner = status.st_uid
        names = Int(status.st_nlink)
        permissions = UInt32(status.st_mode) & 0o7777
    }
}
