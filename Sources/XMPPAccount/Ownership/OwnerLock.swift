import Glibc
import Handlers

/// A file lock that tells whether an account's owner is alive: the kernel frees it the moment the process dies.
///
/// It decides nothing else. Who may write is the epoch in ``OwnershipTable``, so a frozen owner that still holds the
/// lock can be passed over.
final class OwnerLock {
    private var descriptor: Int32

    /// Whether others had access to the file until it was opened.
    let wasNarrowed: Bool

    /// Opens the lock file without taking the lock.
    ///
    /// - Parameter database: The database file.
    /// - Throws: ``AccountError`` `invalidConfiguration` when it cannot be opened, or holds what no owner has written.
    init(path: String, beside database: String) throws(AccountError) {
        do {
            (descriptor, wasNarrowed) = try PrivateFile.open(path, beside: database)
        } catch {
            throw AccountError(.invalidConfiguration, error.message, cause: error)
        }
        // All is set by now, so that an error ends this object, which closes the descriptor.
        guard ToldMark.isValid(descriptor) else {
            let error = PrivateFile.foreign(path, "holds what this library has not written")
            throw AccountError(.invalidConfiguration, error.message, cause: error)
        }
    }

    deinit { close(descriptor) }

    /// Whether some process holds the lock. Where none does, asking takes it for a moment.
    static func isHeld(_ path: String) -> Bool {
        let descriptor = PrivateFile.openToRead(path)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        return flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK
    }

    /// What the server has been told, as the file says.
    var told: ToldMark? { ToldMark(from: descriptor) }

    /// Notes what the server is told. It is neither synced nor minded when it cannot be written: nothing is lost where the
    /// file says too little.
    func note(_ told: ToldMark) {
        _ = told.stored.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, 0) }
    }

    /// Whether this process holds the lock.
    private(set) var isHeld = false

    /// Takes the lock if it is free.
    func tryToTake() -> Bool {
        // flock, not fcntl: POSIX locks vanish when any descriptor of the file is closed.
        if !isHeld { isHeld = flock(descriptor, LOCK_EX | LOCK_NB) == 0 }
        return isHeld
    }

    func release() {
        flock(descriptor, LOCK_UN)
        isHeld = false
    }
}
