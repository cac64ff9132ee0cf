import Glibc

/// A pipe that wakes a thread out of poll(2).
package final class WakeSignal: Sendable {
    /// Readable while the signal is raised.
    package let fileDescriptor: Int32
    let writeEnd: Int32

    package init() throws(HandlerError) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else {
            throw HandlerError(
                .resourcesExhausted,
                "no pipe could be made (\(String(cString: strerror(errno)))); raise the process's limit of open files"
            )
        }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        fileDescriptor = ends[0]
        writeEnd = ends[1]
    }

    deinit {
        close(fileDescriptor)
        close(writeEnd)
    }

    /// A full pipe is raised already.
    package func raise() {
        var byte: UInt8 = 1
        _ = write(writeEnd, &byte, 1)
    }

    package func clear() {
        withUnsafeTemporaryAllocation(byteCount: 256, alignment: 1) { buffer in
            while read(fileDescriptor, buffer.baseAddress, buffer.count) == buffer.count {}
        }
    }

    /// Waits until the signal is raised, at most so many milliseconds; nil waits for ever.
    package func wait(milliseconds: Int64?) {
        var poll = pollfd(fd: fileDescriptor, events: Int16(POLLIN), revents: 0)
        _ = Glibc.poll(&poll, 1, milliseconds.map { Int32(clamping: max(0, $0)) } ?? -1)
    }
}
