#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

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
        // Both systems show a UUID, Darwin in capital letters and with a zero at its end.
        var text = [UInt8](repeating: 0, count: 64)
        #if canImport(Darwin)
            var size = text.count
            guard sysctlbyname("kern.bootsessionuuid", &text, &size, nil, 0) == 0 else { return nil }
        #else
            guard let file = try? OpenFile(reading: "/proc/sys/kernel/random/boot_id"),
                let size = text.withUnsafeMutableBytes({ try? file.read(into: $0, at: 0) })
            else { return nil }
        #endif
        let digits = String(decoding: text.prefix(size), as: UTF8.self).filter { $0.isHexDigit }.lowercased()
        return digits.count == 32 ? digits : nil
    }

    /// Raises the number of files that this process may open as far as the system allows.
    ///
    /// - Returns: That number.
    package static func raiseFileLimit() -> Int {
        var limit = rlimit()
        #if canImport(Darwin)
            let files = RLIMIT_NOFILE
        #else
            let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #endif
        guard getrlimit(files, &limit) == 0 else { return .max }
        if limit.rlim_cur < limit.rlim_max {
            var highest = limit
            highest.rlim_cur = limit.rlim_max
            if setrlimit(files, &highest) == 0 { limit = highest }
        }
        return Int(clamping: limit.rlim_cur)
    }

    /// The number of processors of the machine, from 1.
    package static var processors: Int { max(1, Int(sysconf(Int32(_SC_NPROCESSORS_ONLN)))) }

    /// Dies at once, as by `kill -9`.
    package static func kill() { _ = systemKill(getpid(), SIGKILL) }

    /// Stops all of its threads until it gets SIGCONT. The signal goes to the calling thread, which runs no further.
    package static func stop() { _ = raise(SIGSTOP) }
}
