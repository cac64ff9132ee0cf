import Glibc

/// Files that stand beside a database: nobody but this user may have made them, and nothing else may be written by them.
///
/// Whoever may write into the folder can put a link there, to a file that the program would then overwrite. So a name beside
/// the database is opened only where it is no link, a regular file of this user and the file's only name; the folder itself may
/// be a link. The database file is checked by SQLite and may be a link that the user has made.
package enum PrivateFile {
    /// What was done to a file that others could read.
    package static func narrowed(_ path: String) -> String {
        "others could open \(path); its mode is 0600 now. Whoever had access may have read what is in it"
    }

    /// Opens a file to write to, and creates it with mode 0600.
    ///
    /// - Parameter database: The database file, whose owner may own the file too: root may open another user's database.
    /// - Returns: The descriptor, and whether others had access until now.
    /// - Throws: ``HandlerError`` with code `databaseForeign` for what this program must not write to, which stays as it is;
    ///   otherwise as the system refuses.
    package static func open(
        _ path: String, beside database: String
    ) throws(HandlerError) -> (descriptor: Int32, wasNarrowed: Bool) {
        let flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW
        let descriptor = Glibc.open(path, flags, 0o600)
        guard descriptor >= 0 else { throw refusal(path, errno) }
        do throws(HandlerError) {
            var status = stat()
            guard fstat(descriptor, &status) == 0 else { throw SeatFileErrors.failed(path, errno) }
            try check(path, status, beside: database)
            let isOpen = status.st_mode & 0o077 != 0
            if isOpen, fchmod(descriptor, 0o600) != 0 { throw SeatFileErrors.cannotOpen(path, errno) }
            return (descriptor, isOpen)
        } catch {
            close(descriptor)
            throw error
        }
    }

    /// Opens a file to read, if it is one that ``open(_:)`` would open.
    ///
    /// - Returns: The descriptor; -1 where there is no such file.
    package static func openToRead(_ path: String) -> Int32 {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW)
        guard descriptor >= 0 else { return -1 }
        var status = stat()
        guard fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG, status.st_nlink == 1
        else {
            close(descriptor)
            return -1
        }
        return descriptor
    }

    /// Refuses a name beside the database that SQLite, or a socket, would take over; one that is free is good.
    ///
    /// - Parameters:
    ///   - kind: What must stand there, S_IFREG or S_IFSOCK.
    ///   - database: The database file, whose owner may own it too.
    package static func checkName(
        _ path: String, kind: UInt32 = S_IFREG, beside database: String
    ) throws(HandlerError) {
        var status = stat()
        guard lstat(path, &status) == 0 else { return }
        try check(path, status, kind: kind, beside: database)
    }

    private static func check(
        _ path: String, _ status: stat, kind: UInt32 = S_IFREG, beside database: String
    ) throws(HandlerError) {
        guard status.st_mode & S_IFMT == kind else {
            throw foreign(path, kind == S_IFREG ? "is no regular file" : "is no socket")
        }
        guard status.st_uid == geteuid() || status.st_uid == owner(of: database) else {
            throw foreign(path, "belongs to another user")
        }
        guard status.st_nlink == 1 else {
            throw foreign(path, "has \(status.st_nlink) names in the file system")
        }
    }

    private static func owner(of database: String) -> uid_t? {
        var status = stat()
        return stat(database, &status) == 0 ? status.st_uid : nil
    }

    private static func refusal(_ path: String, _ code: Int32) -> HandlerError {
        switch code {
        // What open(2) says of a link under O_NOFOLLOW, of a socket or device without driver, and of a folder.
        case ELOOP: foreign(path, "is a link")
        case ENXIO, EISDIR: foreign(path, "is no regular file")
        default: SeatFileErrors.cannotOpen(path, code)
        }
    }

    /// The error for something that stands where a file of the library belongs.
    package static func foreign(_ path: String, _ reason: String) -> HandlerError {
        HandlerError(
            .databaseForeign,
            "\(path), which belongs to the database beside it, \(reason), so nothing was written to it; end all programs that have the database open, move it away, and check who else may write to the folder"
        )
    }
}
