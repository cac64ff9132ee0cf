#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Names in the file system.
package enum FileSystem {
    /// Creates an empty file with mode 0600 without opening it.
    package static func create(_ path: String) throws(Errno) {
        #if canImport(Darwin)
            // There mknod(2) makes no regular files. The file is closed before it has its name: a close would free the locks that
            // another thread takes on it through another descriptor (fcntl(2)).
            let unnamed = "\(path)-\(getpid())-\(Randomness().next())"
            _ = try OpenFile(creating: unnamed)
            guard renamex_np(unnamed, path, UInt32(RENAME_EXCL)) != 0 else { return }
            let error = Errno.current
            unlink(unnamed)
            throw error
        #else
            guard mknod(path, S_IFREG | 0o600, 0) == 0 else { throw Errno.current }
        #endif
    }

    /// Creates a named pipe with mode 0600 without opening it.
    package static func createPipe(_ path: String) throws(Errno) {
        guard mkfifo(path, 0o600) == 0 else { throw Errno.current }
    }

    package static func setPermissions(_ mode: UInt32, of path: String) throws(Errno) {
        guard chmod(path, mode_t(truncatingIfNeeded: mode)) == 0 else { throw Errno.current }
    }

    /// Returns whether there is no such file; false also where that is unknown.
    package static func isMissing(_ path: String) -> Bool { access(path, F_OK) != 0 && errno == ENOENT }

    /// Throws unless this process may read the file.
    package static func checkReadable(_ path: String) throws(Errno) {
        guard access(path, R_OK) == 0 else { throw Errno.current }
    }

    /// Gives a file a second name. Unlike renaming, this replaces nothing.
    package static func link(_ path: String, as name: String) throws(Errno) {
        guard systemLink(path, name) == 0 else { throw Errno.current }
    }

    package static func remove(_ path: String) { unlink(path) }

    /// Returns the path from the root and without links; the path itself where there is no such file.
    package static func resolved(_ path: String) -> String {
        guard let resolved = realpath(path, nil) else { return path }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}
