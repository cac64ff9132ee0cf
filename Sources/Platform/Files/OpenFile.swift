#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// An open file; closed when the last reference to it goes.
///
/// No program that this process starts inherits the descriptor.
package final class OpenFile: Sendable {
    package let descriptor: Int32

    private init(adopting descriptor: Int32) { self.descriptor = descriptor }

    /// Opens a file to read it. A pipe or a device is opened without waiting for its other end.
    package convenience init(reading path: String, followsLinks: Bool = true) throws(Errno) {
        let flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | (followsLinks ? 0 : O_NOFOLLOW)
        self.init(adopting: try Self.open(path, flags))
    }

    /// Opens a file to read and write it, or creates it with mode 0600. It refuses a link.
    package convenience init(updating path: String) throws(Errno) {
        self.init(adopting: try Self.open(path, O_RDWR | O_CREAT | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW))
    }

    /// Opens a named pipe to read and write it; neither waits. It refuses a link.
    package convenience init(pipe path: String) throws(Errno) {
        self.init(adopting: try Self.open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW))
    }

    /// Creates a file with mode 0600 to write it. It refuses a name that exists.
    package convenience init(creating path: String) throws(Errno) {
        self.init(adopting: try Self.open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW))
    }

    /// Opens a file to write it from the start, each time at its end, or creates it with mode 0600.
    package convenience init(emptying path: String) throws(Errno) {
        self.init(adopting: try Self.open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND))
    }

    /// Opens a folder, for paths that start in it.
    convenience init(folder path: String) throws(Errno) {
        self.init(adopting: try Self.open(path, O_RDONLY | O_DIRECTORY))
    }

    deinit { close(descriptor) }

    private static func open(_ path: String, _ flags: Int32) throws(Errno) -> Int32 {
        let descriptor = systemOpen(path, flags | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw Errno.current }
        if flags & O_CREAT != 0 { FileProtection.protect(descriptor) }
        return descriptor
    }

    package func status() throws(Errno) -> FileStatus { try FileStatus(of: descriptor) }

    package func setPermissions(_ mode: UInt32) throws(Errno) {
        guard fchmod(descriptor, mode_t(truncatingIfNeeded: mode)) == 0 else { throw Errno.current }
    }

    /// Reads from where the last such call ended.
    ///
    /// - Returns: How many bytes; 0 at the end of the file.
    package func read(into buffer: UnsafeMutableRawBufferPointer) throws(Errno) -> Int {
        while true {
            let count = systemRead(descriptor, buffer)
            if count >= 0 { return count }
            guard errno == EINTR else { throw Errno.current }
        }
    }

    /// Reads from a place in the file.
    ///
    /// - Returns: How many bytes; fewer than the buffer has where the file ends.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int) throws(Errno) -> Int {
        let count = pread(descriptor, buffer.baseAddress, buffer.count, off_t(offset))
        guard count >= 0 else { throw Errno.current }
        return count
    }

    /// Writes all of `bytes` after what was written before.
    package func write(_ bytes: UnsafeRawBufferPointer) throws(Errno) {
        var rest = bytes
        while !rest.isEmpty {
            let count = systemWrite(descriptor, rest)
            guard count > 0 || errno == EINTR else { throw Errno.current }
            rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(max(0, count)))
        }
    }

    /// Writes `bytes` to a place in the file.
    ///
    /// - Throws: ``Errno`` `noSpace` also where only a part of them was written.
    package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(Errno) {
        let count = pwrite(descriptor, bytes.baseAddress, bytes.count, off_t(offset))
        guard count >= 0 else { throw Errno.current }
        guard count == bytes.count else { throw .noSpace }
    }

    /// Waits until what was written is on the disk.
    package func synchronize() throws(Errno) {
        #if canImport(Darwin)
            // There fsync(2) leaves it in the drive's cache. Not every file system knows the other call.
            if fcntl(descriptor, F_FULLFSYNC) == 0 { return }
        #endif
        guard fsync(descriptor) == 0 else { throw Errno.current }
    }
}
