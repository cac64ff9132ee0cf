import Platform

/// The files of a store: those that SQLite keeps, and what is looked at without it.
package protocol StoreFiles: Sendable {
    /// The name of SQLite's virtual file system; nil for that of the system.
    var virtualFileSystem: String? { get }
    /// Creates the database file for its owner alone, if it is missing, and checks the names that SQLite will write to.
    ///
    /// - Throws: ``HandlerError`` with code `databaseForeign` for names that belong to others; otherwise as the system refuses.
    func prepare(_ path: String) throws(HandlerError)
    /// Closes a database file that others may read.
    ///
    /// - Returns: Whether others had access until now.
    func makePrivate(_ path: String) -> Bool
    /// Checks that a file can be read as a database.
    func checkReadable(_ path: String) throws(HandlerError)
    /// The number of a file; a copy has another one. Nil for a file that is missing.
    func number(of path: String) -> Int64?
    /// Waits for the lock of another process, on the calling thread.
    func pause(microseconds: UInt32)
}

/// The files of the machine.
package struct SystemFiles: StoreFiles {
    package init() {}

    package var virtualFileSystem: String? { nil }

    package func prepare(_ path: String) throws(HandlerError) {
        try Self.createPrivately(path)
        // SQLite itself follows no link here (3.31), but would write to a file that has a second name, or another owner.
        let file = FileSystem.resolved(path)
        for suffix in ["-wal", "-shm", "-journal"] { try PrivateFile.checkName(file + suffix, beside: file) }
    }

    /// Rows may hold secrets, so the file is created for its owner alone; SQLite gives -wal and -shm the same mode.
    private static func createPrivately(_ path: String) throws(HandlerError) {
        // Not open(2): closing the descriptor would drop the locks that other connections of this process hold on the
        // file, and another process could then take itself for the last one and delete the log beneath them.
        do throws(Errno) {
            try FileSystem.create(path)
        } catch .alreadyExists {
            return
        } catch { throw cannotOpen(path, error) }
    }

    /// Before SQLite gives the file's mode to -wal and -shm.
    package func makePrivate(_ path: String) -> Bool {
        guard let status = try? FileStatus(path), status.isOpenToOthers else { return false }
        return (try? FileSystem.setPermissions(0o600, of: path)) != nil
    }

    /// Something other than a regular file would make SQLite wait, or fail with a misleading error.
    package func checkReadable(_ path: String) throws(HandlerError) {
        let kind: FileStatus.Kind
        do throws(Errno) {
            kind = try FileStatus(path).kind
            try FileSystem.checkReadable(path)
        } catch { throw cannotRead(path, error.description) }
        guard kind == .regular else { throw cannotRead(path, "it is no file") }
    }

    package func number(of path: String) -> Int64? { FileNumber.of(path) }

    package func pause(microseconds: UInt32) { SystemThread.sleep(microseconds: microseconds) }
}

/// The error for a database that cannot be read.
func cannotRead(_ path: String, _ reason: String) -> HandlerError {
    HandlerError(
        .databaseUnavailable,
        "the store \(path) cannot be read (\(reason)); name the database file of the program to look at")
}
