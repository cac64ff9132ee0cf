import Glibc

/// A file that is open for reading, and what tells it from another one in its place.
final class LocalFile {
    /// What a file was when it was to be uploaded.
    struct Identity: Hashable, Sendable {
        /// In bytes.
        var size: Int64
        var inode: Int64
        /// When it was last written to, in nanoseconds since 1970.
        var modified: Int64

        init(size: Int64, inode: Int64, modified: Int64) {
            (self.size, self.inode, self.modified) = (size, inode, modified)
        }

        fileprivate init(_ status: stat) {
            size = Int64(status.st_size)
            inode = Int64(truncatingIfNeeded: status.st_ino)
            let seconds = Int64(status.st_mtim.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
            modified = seconds.partialValue &+ Int64(status.st_mtim.tv_nsec)
        }
    }

    private let descriptor: Int32
    private let path: String

    /// - Throws: ``UploadError`` `fileMissing`, `fileUnreadable`, `invalidFile` for what is no regular file.
    init(_ path: String) throws(UploadError) {
        // Opening a pipe or a device would wait, or do something.
        descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw Self.failure(errno, path) }
        self.path = path
    }

    deinit { close(descriptor) }

    /// What it is now.
    func identity() throws(UploadError) -> Identity {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Self.failure(errno, path) }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw UploadError(.invalidFile, "\(path) is no regular file; only those can be uploaded")
        }
        return Identity(status)
    }

    /// - Throws: ``UploadError`` `fileChanged` when it is another one by now.
    func check(_ identity: Identity) throws(UploadError) {
        guard try self.identity() == identity else { throw changed }
    }

    /// Fills as much of the buffer as there is.
    ///
    /// - Throws: ``UploadError`` `fileChanged` at the end of the file, which was longer before.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(UploadError) -> Int {
        while true {
            let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
            if count > 0 { return count }
            if count == 0 { throw changed }
            guard errno == EINTR else { throw Self.failure(errno, path) }
        }
    }

    private var changed: UploadError {
        UploadError(
            .fileChanged,
            "\(path) was changed after it was to be uploaded; upload it as it is now if it shall be")
    }

    static func failure(_ code: Int32, _ path: String) -> UploadError {
        let reason = String(cString: strerror(code))
        return code == ENOENT || code == ENOTDIR
            ? UploadError(.fileMissing, "\(path) is not there (\(reason)); keep a file until it is uploaded")
            : UploadError(.fileUnreadable, "\(path) cannot be used (\(reason)); look at its permissions")
    }
}
