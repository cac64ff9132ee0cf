import Glibc

/// A file lock that tells whether an account's owner is alive: the kernel frees it the moment the process dies.
///
/// It decides nothing else. Who may write is the epoch in ``OwnershipTable``, so a frozen owner that still holds the
/// lock can be passed over.
final class OwnerLock {
    private var descriptor: Int32

    /// Opens the lock file without taking the lock.
    init(path: String) throws(AccountError) {
        descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else {
            throw AccountError(
                .invalidConfiguration,
                "the lock file \(path) cannot be opened (\(String(cString: strerror(errno)))); check the database's folder"
            )
        }
    }

    deinit { close(descriptor) }

    // MARK: The epoch

    // The file tells which epoch was the newest, as text. A database that knows only an older one is older than the file.
    // Nothing is lost where it tells too little, so it is neither synced nor minded when it cannot be written.

    /// The newest epoch that was noted; 0 for none.
    var newestEpoch: Int64 {
        var bytes = [UInt8](repeating: 0, count: 20)
        let count = pread(descriptor, &bytes, bytes.count, 0)
        let digits = bytes.prefix(max(0, count)).prefix { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
        return Int64(String(decoding: digits, as: UTF8.self)) ?? 0
    }

    /// Notes an epoch once it is committed.
    func note(epoch: Int64) {
        let text = Array("\(epoch)\n".utf8)
        _ = pwrite(descriptor, text, text.count, 0)
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
