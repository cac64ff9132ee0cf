#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Locks on single bytes of a file that belong to the open file description and not to the process.
///
/// So two stores in one process lock each other out, and the kernel frees the locks when the last descriptor goes, be
/// it by SIGKILL. Bytes beyond the end of the file can be locked as well.
extension OpenFile {
    #if canImport(Darwin)
        // <sys/fcntl.h> defines these three in the newest SDKs only.
        private static let getLock: Int32 = 92
        private static let setLock: Int32 = 90
        private static let setLockAndWait: Int32 = 91
    #else
        // <fcntl.h> defines these three for _GNU_SOURCE only, so that Swift's Glibc module lacks them. The numbers are
        // those of every Linux architecture.
        private static let getLock: Int32 = 36
        private static let setLock: Int32 = 37
        private static let setLockAndWait: Int32 = 38
    #endif

    /// Takes the lock of a byte for writing if no other description holds it.
    ///
    /// - Returns: Whether it was taken.
    /// - Throws: The reason of a file system that gives no locks.
    package func tryLock(byte offset: Int64) throws(Errno) -> Bool {
        do throws(Errno) {
            try apply(Self.setLock, Self.request(F_WRLCK, offset, 1))
            return true
        } catch .wouldBlock {
            return false
        } catch .permissionDenied { return false }
    }

    /// Takes the lock of a byte for writing, waiting while another description holds it.
    package func lock(byte offset: Int64) throws(Errno) {
        try apply(Self.setLockAndWait, Self.request(F_WRLCK, offset, 1))
    }

    package func unlock(byte offset: Int64) { try? apply(Self.setLock, Self.request(F_UNLCK, offset, 1)) }

    /// Returns whether another description holds a lock on any byte from `offset` on, `length` bytes or to the end of all
    /// files (0).
    package func isLockedElsewhere(byte offset: Int64, length: Int64 = 1) -> Bool {
        var lock = Self.request(F_WRLCK, offset, length)
        return fcntl(descriptor, Self.getLock, &lock) == 0 && lock.l_type != Int16(F_UNLCK)
    }

    private static func request(_ type: Int32, _ offset: Int64, _ length: Int64) -> flock {
        var lock = flock()
        lock.l_type = Int16(type)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = off_t(offset)
        lock.l_len = off_t(length)
        return lock
    }

    private func apply(_ command: Int32, _ request: flock) throws(Errno) {
        var lock = request
        while fcntl(descriptor, command, &lock) != 0 {
            guard errno == EINTR else { throw Errno.current }
        }
    }
}
