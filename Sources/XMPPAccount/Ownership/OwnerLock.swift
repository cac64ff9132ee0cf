import Handlers
import Platform

/// A file lock that tells whether an account's owner is alive: the kernel frees it the moment the process dies.
///
/// It decides nothing else. Who may write is the epoch in ``OwnershipTable``, so a frozen owner that still holds the
/// lock can be passed over.
final class OwnerLock {
    private let file: OpenFile

    /// Whether others had access to the file until it was opened.
    let wasNarrowed: Bool

    /// Opens the lock file without taking the lock.
    ///
    /// - Parameter database: The database file.
    /// - Throws: ``AccountError`` `invalidConfiguration` when it cannot be opened, or holds what no owner has written.
    init(path: String, beside database: String) throws(AccountError) {
        do {
            (file, wasNarrowed) = try PrivateFile.open(path, beside: database)
        } catch { throw AccountError(.invalidConfiguration, error.message, cause: error) }
        guard SentProgress.isValid(file) else {
            let error = PrivateFile.foreign(path, "holds what this library has not written")
            throw AccountError(.invalidConfiguration, error.message, cause: error)
        }
    }

    /// Returns whether some process holds the lock. Where none does, asking takes it for a moment.
    static func isHeld(_ path: String) -> Bool { PrivateFile.openToRead(path)?.isLockedElsewhere() ?? false }

    /// The count in the file that the server has received.
    var sent: SentProgress? { SentProgress(from: file) }

    /// Notes what the server is told. It is neither synced nor minded when it cannot be written: nothing is lost where the
    /// file says too little.
    func record(_ sent: SentProgress) { sent.stored.withUnsafeBytes { try? file.write($0, at: 0) } }

    /// Whether this process holds the lock.
    private(set) var isHeld = false

    /// Takes the lock if it is free.
    func tryToAcquire() -> Bool {
        // flock, not fcntl: POSIX locks vanish when any descriptor of the file is closed.
        if !isHeld { isHeld = file.tryLock() }
        return isHeld
    }

    func release() {
        file.unlock()
        isHeld = false
    }
}
