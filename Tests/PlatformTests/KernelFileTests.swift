import Platform
import TestSupport
import TestThreads
import Testing

#if !canImport(Darwin)
    import Glibc

    @Suite(.ownThread) struct KernelFileTests {
        @Test("H14 W8 the kernel's list of locks is read to its end, however long it is")
        func wholeList() throws {
            let folder = try TemporaryFolder()
            let file = open(folder.path + "/locked", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            try #require(file >= 0)
            defer { close(file) }
            for number in 0..<300 {
                var lock = flock(
                    l_type: Int16(F_WRLCK), l_whence: Int16(SEEK_SET), l_start: off_t(2 * number), l_len: 1,
                    l_pid: 0)
                try #require(fcntl(file, F_SETLK, &lock) == 0)
            }
            var status = stat()
            try #require(fstat(file, &status) == 0)
            let lines = KernelFile.text("/proc/locks").split(separator: "\n")
            // Locks of others come and go while it is read, so a few lines may be missing. A page has some 70.
            #expect(lines.count { $0.contains(":\(status.st_ino) ") } > 200)
            #expect(KernelFile.text("/proc/none") == "")
            withExtendedLifetime(folder) {}
        }
    }
#endif
