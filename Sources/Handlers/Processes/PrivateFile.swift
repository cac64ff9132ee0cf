package import Platform

/// Files beside a database: each must belong to this user, and writing to it must not change any other file.
///
/// A user who may write into the folder can put a link there, to a file that the program would then overwrite. So a name beside
/// the database is opened only where it is no link, a regular file of this user and the file's only name; the folder itself may
/// be a link. The database file is checked by SQLite and may be a link that the user has made.
package enum PrivateFile {
    /// Returns the log message about a file whose access was restricted to this user.
    package static func narrowed(_ path: String) -> String {
        "others could open \(path); its mode is 0600 now. Whoever had access may have read what is in it"
    }

    /// Opens a file to write to, and creates it with mode 0600.
    ///
    /// - Parameter database: The database file, whose owner may own the file too: root may open another user's database.
    /// - Returns: The file, and whether others had access until now.
    /// - Throws: ``HandlerError`` with code `databaseForeign` for what this program must not write to, which stays as it is;
    ///   otherwise as the system refuses.
    package static func open(
        _ path: String, beside database: String
    ) throws(HandlerError) -> (file: OpenFile, wasNarrowed: Bool) {
        let file = try withRefusals(path, .regular) { () throws(Errno) in try OpenFile(updating: path) }
        return (file, try check(file, path, .regular, beside: database))
    }

    /// Opens a named pipe to write to, and creates it with mode 0600; otherwise like ``open(_:beside:)``.
    ///
    /// - Returns: Nil where there is none and the system refuses to create one: in a folder that cannot be written, or on a file
    ///   system without pipes.
    package static func openPipe(
        _ path: String, beside database: String
    ) throws(HandlerError) -> (file: OpenFile, wasNarrowed: Bool)? {
        let file = try withRefusals(path, .pipe) { () throws(Errno) in try pipe(path) }
        guard let file else { return nil }
        return (file, try check(file, path, .pipe, beside: database))
    }

    private static func pipe(_ path: String) throws(Errno) -> OpenFile? {
        do throws(Errno) { return try OpenFile(pipe: path) } catch {
            guard error == .noSuchFile else { throw error }
        }
        // Another process may create it first.
        do throws(Errno) { try FileSystem.createPipe(path) } catch {
            guard error == .alreadyExists else { return nil }
        }
        return try OpenFile(pipe: path)
    }

    /// Refuses what this program must not write to, and restricts access to this user.
    ///
    /// - Returns: Whether others had access until now.
    private static func check(
        _ file: OpenFile, _ path: String, _ kind: FileStatus.Kind, beside database: String
    ) throws(HandlerError) -> Bool {
        let status = try withRefusals(path, kind) { () throws(Errno) in try file.status() }
        if let fault = fault(of: status, kind, beside: database) { throw foreign(path, fault) }
        if status.isOpenToOthers { try narrow(file, path) }
        return status.isOpenToOthers
    }

    private static func withRefusals<R>(
        _ path: String, _ kind: FileStatus.Kind, _ body: () throws(Errno) -> R
    ) throws(HandlerError) -> R {
        do throws(Errno) { return try body() } catch { throw refusal(path, kind, error) }
    }

    private static func narrow(_ file: OpenFile, _ path: String) throws(HandlerError) {
        do throws(Errno) {
            try file.setPermissions(0o600)
        } catch { throw SlotFileErrors.cannotOpen(path, error) }
    }

    /// Opens a file to read, if it is one that ``open(_:beside:)`` would open; nil otherwise.
    package static func openToRead(_ path: String) -> OpenFile? {
        guard let file = try? OpenFile(reading: path, followsLinks: false), let status = try? file.status(),
            status.kind == .regular, status.names == 1
        else { return nil }
        return file
    }

    /// Refuses a name beside the database that SQLite, or a socket, would take over; one that is free is good.
    ///
    /// - Parameters:
    ///   - kind: Required kind of the file.
    ///   - database: The database file, whose owner may own it too.
    package static func checkName(
        _ path: String, kind: FileStatus.Kind = .regular, beside database: String
    ) throws(HandlerError) {
        guard let status = try? FileStatus(path, followsLinks: false) else { return }
        if let fault = fault(of: status, kind, beside: database) { throw foreign(path, fault) }
    }

    private static func fault(
        of status: FileStatus, _ kind: FileStatus.Kind = .regular, beside database: String
    ) -> String? {
        guard status.kind == kind else { return wrongKind(kind) }
        guard status.owner == ThisProcess.user || status.owner == (try? FileStatus(database))?.owner else {
            return "belongs to another user"
        }
        return status.names == 1 ? nil : "has \(status.names) names in the file system"
    }

    private static func wrongKind(_ kind: FileStatus.Kind) -> String {
        switch kind {
        case .regular, .other: "is no regular file"
        case .socket: "is no socket"
        case .pipe: "is no pipe"
        }
    }

    private static func refusal(_ path: String, _ kind: FileStatus.Kind, _ error: Errno) -> HandlerError {
        switch error {
        // Of a link that is not to be followed, of a socket or a device without driver, and of a folder.
        case .tooManyLinks: foreign(path, "is a link")
        case .noDeviceOrAddress, .isFolder: foreign(path, wrongKind(kind))
        default: SlotFileErrors.cannotOpen(path, error)
        }
    }

    /// Returns the error for a foreign file in the place of one of the library's files.
    package static func foreign(_ path: String, _ reason: String) -> HandlerError {
        HandlerError(
            .databaseForeign,
            "\(path), which belongs to the database beside it, \(reason), so nothing was written to it; end all programs that have the database open, move it away, and check who else may write to the folder"
        )
    }
}
