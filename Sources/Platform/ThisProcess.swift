import Glibc

/// The process that runs this code.
package enum ThisProcess {
    package static var id: Int32 { getpid() }

    /// The user whose rights it has.
    package static var user: UInt32 { geteuid() }

    /// Returns a variable of its environment; nil where it is not set.
    package static func environment(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

    /// The folder that relative paths start in; nil where it was removed.
    package static var workingFolder: String? {
        guard let folder = getcwd(nil, 0) else { return nil }
        defer { free(folder) }
        return String(cString: folder)
    }

    /// Returns the kernel's id of the running boot, 32 hexadecimal digits; nil where it cannot be read.
    package static func bootID() -> String? {
        guard let file = try? OpenFile(reading: "/proc/sys/kernel/random/boot_id") else { return nil }
        var text = [UInt8](repeating: 0, count: 36)
        let count = text.withUnsafeMutableBytes { try? file.read(into: $0, at: 0) }
        let digits = String(decoding: text, as: UTF8.self).filter(\.isHexDigit)
        return count == text.count && digits.count == 32 ? digits : nil
    }

    /// Raises the number of files that this process may open as far as the system allows.
    ///
    /// - Returns: That number.
    package static func raiseFileLimit() -> Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return .max }
        if limit.rlim_cur < limit.rlim_max {
            var highest = limit
            highest.rlim_cur = limit.rlim_max
            if setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &highest) == 0 { limit = highest }
        }
        return Int(clamping: limit.rlim_cur)
    }

    /// The number of processors of the machine, from 1.
    package static var processors: Int { max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))) }

    /// Dies at once, as by `kill -9`.
    package static func kill() { _ = Glibc.kill(getpid(), SIGKILL) }

    /// Stops all of its threads until it gets SIGCONT. The signal goes to the calling thread, which runs no further.
    package static func stop() { _ = raise(SIGSTOP) }
}
