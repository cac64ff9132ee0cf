import Glibc

/// The memory that a process has used.
package enum ProcessMemory {
    /// The most physical memory so far, in KiB; 0 where the system does not tell.
    package static var peakKibibytes: Int { peakKibibytes(of: getpid()) }

    /// That of another process.
    package static func peakKibibytes(of processID: Int32) -> Int {
        // Not getrusage: after a fork its figure starts with the parent's.
        guard let file = fopen("/proc/\(processID)/status", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        while fgets(&line, Int32(line.count), file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            guard text.hasPrefix("VmHWM:") else { continue }
            return text.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first.flatMap {
                Int($0)
            } ?? 0
        }
        return 0
    }

    /// The physical memory that is taken now, in KiB; 0 where the system does not tell.
    static var residentKibibytes: Int {
        guard let file = fopen("/proc/self/statm", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 128)
        guard fgets(&line, Int32(line.count), file) != nil else { return 0 }
        let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        let pages = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        return pages * sysconf(Int32(_SC_PAGESIZE)) / 1024
    }

    /// From here on gives code back whenever more than that is taken, until the task is canceled: while there is much to do,
    /// what the beginning needed leaves room for the work.
    package static func releasingCode(above kibibytes: Int) -> Task<Void, Never> {
        Task {
            while !Task.isCancelled {
                releaseCode(above: kibibytes)
                try? await Task.sleep(for: .milliseconds(1))
            }
        }
    }

    /// Ends that, and waits until it has ended, so that nothing of it runs while the process exits.
    package static func end(_ releasing: Task<Void, Never>) async {
        releasing.cancel()
        await releasing.value
    }

    /// Gives code back if more than that is taken.
    package static func releaseCode(above kibibytes: Int) {
        if residentKibibytes > kibibytes { releaseCode() }
    }

    /// Gives the pages of code back that only the beginning needed, such as that of the login.
    ///
    /// Code counts where all of a process's memory is limited, and most of it is there only because a neighbor was
    /// needed. It is clean: what is needed again is mapped again.
    package static func releaseCode() {
        guard let file = fopen("/proc/self/maps", "r") else { return }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 1024)
        // Parts of a file that lie side by side go with one call.
        var together: (start: UInt, end: UInt)?
        while fgets(&line, Int32(line.count), file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            guard let part = cleanPart(text) else { continue }
            if let known = together, known.end == part.start {
                together = (known.start, part.end)
            } else {
                together.map(giveBack)
                together = part
            }
        }
        together.map(giveBack)
    }

    private static func giveBack(_ start: UInt, _ end: UInt) {
        madvise(UnsafeMutableRawPointer(bitPattern: start), Int(end - start), MADV_DONTNEED)
    }

    /// Where a line of `/proc/self/maps` says that a part of a file lies to which nothing was ever written, so that nothing can
    /// be lost: what is executable, and the tables at the begin of a file that the loader reads. In other read-only parts
    /// addresses may have been filled in.
    private static func cleanPart(_ line: String) -> (start: UInt, end: UInt)? {
        let words = line.split(separator: " ")
        guard words.count > 5, words[5].hasPrefix("/"),
            words[1] == "r-xp" || words[1] == "r--p" && words[2] == "00000000"
        else { return nil }
        let bounds = words[0].split(separator: "-").compactMap { UInt($0, radix: 16) }
        return bounds.count == 2 && bounds[1] > bounds[0] ? (bounds[0], bounds[1]) : nil
    }
}
