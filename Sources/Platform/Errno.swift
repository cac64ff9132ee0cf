#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A system call's reason to refuse.
///
/// ```swift
/// do { try file.write(bytes, at: 0) } catch .noSpace { … }
/// ```
package struct Errno: RawRepresentable, Error, Hashable, Sendable, CustomStringConvertible {
    package let rawValue: Int32

    package init(rawValue: Int32) { self.rawValue = rawValue }

    /// The reason of the last call of this thread that failed.
    package static var current: Errno { Errno(rawValue: errno) }

    /// The system's words: "Permission denied".
    package var description: String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
            buffer.initialize(repeating: 0)
            let result = strerror_r(rawValue, buffer.baseAddress!, buffer.count)
            return result == 0 ? String(cString: buffer.baseAddress!) : "Unknown error \(rawValue)"
        }
    }

    /// The description with the number of the error.
    package var detail: String { "\(description), errno \(rawValue)" }

    /// Whether the process or the system has no descriptor or memory left for one more.
    package var isExhaustion: Bool { [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(rawValue) }
}

// Computed, for a stored constant would be made at its first use.
extension Errno {
    package static var alreadyExists: Errno { Errno(rawValue: EEXIST) }
    package static var badDescriptor: Errno { Errno(rawValue: EBADF) }
    package static var brokenPipe: Errno { Errno(rawValue: EPIPE) }
    package static var connectionRefused: Errno { Errno(rawValue: ECONNREFUSED) }
    package static var connectionReset: Errno { Errno(rawValue: ECONNRESET) }
    package static var diskQuotaExceeded: Errno { Errno(rawValue: EDQUOT) }
    package static var hostDown: Errno { Errno(rawValue: EHOSTDOWN) }
    package static var hostUnreachable: Errno { Errno(rawValue: EHOSTUNREACH) }
    package static var interrupted: Errno { Errno(rawValue: EINTR) }
    package static var invalidArgument: Errno { Errno(rawValue: EINVAL) }
    package static var ioError: Errno { Errno(rawValue: EIO) }
    package static var isFolder: Errno { Errno(rawValue: EISDIR) }
    package static var networkDown: Errno { Errno(rawValue: ENETDOWN) }
    package static var networkUnreachable: Errno { Errno(rawValue: ENETUNREACH) }
    package static var noDevice: Errno { Errno(rawValue: ENODEV) }
    package static var noDeviceOrAddress: Errno { Errno(rawValue: ENXIO) }
    package static var noLocks: Errno { Errno(rawValue: ENOLCK) }
    package static var noSpace: Errno { Errno(rawValue: ENOSPC) }
    package static var noSuchFile: Errno { Errno(rawValue: ENOENT) }
    package static var notAFolder: Errno { Errno(rawValue: ENOTDIR) }
    package static var notPermitted: Errno { Errno(rawValue: EPERM) }
    package static var notConnected: Errno { Errno(rawValue: ENOTCONN) }
    package static var notSupported: Errno { Errno(rawValue: EOPNOTSUPP) }
    package static var notImplemented: Errno { Errno(rawValue: ENOSYS) }
    package static var permissionDenied: Errno { Errno(rawValue: EACCES) }
    package static var readOnlyFileSystem: Errno { Errno(rawValue: EROFS) }
    package static var timedOut: Errno { Errno(rawValue: ETIMEDOUT) }
    package static var tooManyLinks: Errno { Errno(rawValue: ELOOP) }
    package static var wouldBlock: Errno { Errno(rawValue: EAGAIN) }
}
