import Glibc

/// Locks on single bytes of a file that belong to the open file description and not to the process.
///
/// So two stores in one process lock each other out, and the kernel frees the locks when the last descriptor goes, be
/// it by SIGKILL. Bytes beyond the end of the file can be locked as well.
enum OpenFileLock {
    // <fcntl.h> defines these three for _GNU_SOURCE only, so that Swift's Glibc module lacks them. The numbers are
    // those of every Linux architecture.
    private static let get: Int32 = 36
    private static let set: Int32 = 37
    private static let setAndWait: Int32 = 38

    /// Takes the lock for writing if no other description holds it.
    /// - Returns: 0, or EAGAIN or EACCES when it is held, or the errno that the file system gives.
    static func tryWriting(_ descriptor: Int32, _ offset: Int64) -> Int32 {
        apply(set, descriptor, request(F_WRLCK, offset, 1))
    }

    /// Takes the lock for writing, waiting while another description holds it.
    static func waitForWriting(_ descriptor: Int32, _ offset: Int64) -> Int32 {
        apply(setAndWait, descriptor, request(F_WRLCK, offset, 1))
    }

    static func unlock(_ descriptor: Int32, _ offset: Int64) {
        _ = apply(set, descriptor, request(F_UNLCK, offset, 1))
    }

    /// Whether another description holds a lock on any byte from `offset` on, `length` bytes or to the end of all
    /// files (0).
    static func isHeldElsewhere(_ descriptor: Int32, _ offset: Int64, length: Int64 = 1) -> Bool {
        var lock = request(F_WRLCK, offset, length)
        return fcntl(descriptor, get, &lock) == 0 && lock.l_type != Int16(F_UNLCK)
    }

    private static func request(_ type: Int32, _ offset: Int64, _ length: Int64) -> flock {
        var lock = flock()
        lock.l_type = Int16(type)
        lock.l_whence = Int16(SEEK_SET)
        lock.l_start = off_t(offset)
        lock.l_len = off_t(length)
        return lock
    }

    private static func apply(_ command: Int32, _ descriptor: Int32, _ request: flock) -> Int32 {
        var lock = request
        while fcntl(descriptor, command, &lock) != 0 {
            guard errno == EINTR else { return errno }
        }
        return 0
    }
}
