#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A pipe that wakes a thread out of poll(2).
package struct WakePipe: ~Copyable, Sendable {
    /// Readable while the pipe is raised.
    package let readEnd: Int32
    package let writeEnd: Int32

    package init() throws(Errno) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { throw Errno.current }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        (readEnd, writeEnd) = (ends[0], ends[1])
    }

    deinit {
        close(readEnd)
        close(writeEnd)
    }

    /// Raises the signal; a full pipe is raised already.
    package func raise() {
        var byte: UInt8 = 1
        _ = write(writeEnd, &byte, 1)
    }

    package func clear() {
        withUnsafeTemporaryAllocation(byteCount: 256, alignment: 1) { buffer in
            while read(readEnd, buffer.baseAddress, buffer.count) == buffer.count {}
        }
    }
}
