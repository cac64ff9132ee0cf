import Platform

/// A file that is open for reading, and its identity.
final class LocalFile {
    /// The identity of a file when its upload was requested.
    struct Identity: Hashable, Sendable {
        /// In bytes.
        var size: Int64
        var inode: Int64
        /// When it was last written to, in nanoseconds since 1970.
        var modified: Int64

        init(size: Int64, inode: Int64, modified: Int64) {
            (self.size, self.inode, self.modified) = (size, inode, modified)
        }

        fileprivate init(_ status: FileStatus) {
            (size, modified) = (status.size, status.modified)
            inode = Int64(truncatingIfNeeded: status.inode)
        }
    }

    private let file: OpenFile
    private let path: String

    /// - Throws: ``UploadError`` `fileMissing`, `fileUnreadable`, `invalidFile` for what is no regular file.
    init(_ path: String) throws(UploadError) {
        file = try Self.withSystemErrors(path) { () throws(Errno) in try OpenFile(reading: path) }
        self.path = path
    }

    /// Returns the current identity.
    func identity() throws(UploadError) -> Identity {
        let status = try Self.withSystemErrors(path) { () throws(Errno) in try file.status() }
        guard status.kind == .regular else {
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
        let count = try Self.withSystemErrors(path) { () throws(Errno) in try file.read(into: buffer) }
        guard count > 0 else { throw changed }
        return count
    }

    private var changed: UploadError {
        UploadError(
            .fileChanged,
            "\(path) was changed after it was to be uploaded; upload it as it is now if it shall be")
    }

    /// Runs system calls on a file, with errors that say what to do.
    static func withSystemErrors<R>(_ path: String, _ body: () throws(Errno) -> R) throws(UploadError) -> R {
        do throws(Errno) { return try body() } catch { throw failure(error, path) }
    }

    static func failure(_ error: Errno, _ path: String) -> UploadError {
        [.noSuchFile, .notAFolder].contains(error)
            ? UploadError(.fileMissing, "\(path) is not there (\(error)); keep a file until it is uploaded")
            : UploadError(.fileUnreadable, "\(path) cannot be used (\(error)); look at its permissions")
    }
}
