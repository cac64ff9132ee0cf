import Glibc
import Platform

extension FileDescriptor {
    /// Makes a pipe whose ends a new program does not inherit.
    static func pipe() throws(ChildProcessError) -> DescriptorPair {
        var ends: [Int32] = [-1, -1]
        guard Glibc.pipe(&ends) == 0 else { throw systemRefused("a pipe") }
        // Another thread may start a program between the two calls. Programs started by this package have every descriptor but 0, 1
        // and 2 closed.
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return DescriptorPair(reading: FileDescriptor(ends[0]), writing: FileDescriptor(ends[1]))
    }

    /// Makes a connected pair of sockets. Unlike a pipe, its ends can be written to without SIGPIPE.
    static func socketPair() throws(ChildProcessError) -> DescriptorPair {
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw systemRefused("a socket pair") }
        return DescriptorPair(reading: FileDescriptor(ends[0]), writing: FileDescriptor(ends[1]))
    }

    static func file(_ path: String, flags: Int32) throws(ChildProcessError) -> FileDescriptor {
        let number = open(path, flags | O_CLOEXEC, 0o600)
        guard number >= 0 else { throw systemRefused("the file \(path)") }
        return FileDescriptor(number)
    }

    static func copy(of number: Int32) throws(ChildProcessError) -> FileDescriptor {
        let copy = fcntl(number, F_DUPFD_CLOEXEC, 3)
        guard copy >= 0 else { throw systemRefused("a copy of descriptor \(number)") }
        return FileDescriptor(copy)
    }

    private static func systemRefused(_ what: String) -> ChildProcessError {
        ChildProcessError(.startFailed, "The system refused \(what): \(Errno.current).")
    }
}

/// The two ends of a pipe or a socket pair.
struct DescriptorPair: ~Copyable {
    let reading: FileDescriptor
    let writing: FileDescriptor
}

extension ContinuousClock.Instant {
    /// The timeout for `poll`: whole milliseconds from now, at least 0. It is rounded up, so that a loop does not spin just before
    /// the end.
    var pollTimeout: Int32 {
        let left = ContinuousClock.now.duration(to: self) / .milliseconds(1)
        return Int32(min(max(left, 0).rounded(.up), 1_000_000_000))
    }
}

/// Waits until the descriptor is readable or its other end is closed; false when the deadline passes first.
func waitReadable(_ number: Int32, deadline: ContinuousClock.Instant) -> Bool {
    // A signal may end one wait early.
    repeat {
        if PollEntry.waitReadable(number, milliseconds: deadline.pollTimeout) { return true }
    } while ContinuousClock.now < deadline
    return false
}
