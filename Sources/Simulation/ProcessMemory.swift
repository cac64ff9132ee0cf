import Glibc

/// The memory that a process has used.
package enum ProcessMemory {
    /// The peak of physical memory so far, in KiB; 0 if the system does not report it.
    package static var peakKibibytes: Int { peakKibibytes(of: getpid()) }

    /// Returns the peak of another process.
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

    /// The current physical memory, in KiB; 0 if the system does not report it.
    static var residentKibibytes: Int {
        guard let file = fopen("/proc/self/statm", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 128)
        guard fgets(&line, Int32(line.count), file) != nil else { return 0 }
        let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
        let pages = text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        return pages * sysconf(Int32(_SC_PAGESIZE)) / 1024
    }

    /// Starts a task that releases code whenever more physical memory is used, until it is canceled.
    ///
    /// Without the code of the start, more memory is left for the work.
    package static func releasingCode(above kibibytes: Int) -> Task<Void, Never> {
        Task {
            while !Task.isCancelled {
                releaseCode(above: kibibytes)
                try? await Task.sleep(for: .milliseconds(1))
            }
        }
    }

    /// Cancels the task and waits for its end, so that it does not run while the process exits.
    package static func end(_ releasing: Task<Void, Never>) async {
        releasing.cancel()
        await releasing.value
    }

    /// Releases code if more physical memory is used.
    package static func releaseCode(above kibibytes: Int) {
        if residentKibibytes > kibibytes { releaseCode() }
    }

    /// Releases code pages that only the start needed, such as those of the login.
    ///
    /// Code counts where all memory of a process is limited. Most code pages are present only because the kernel loads neighbors of
    /// a needed page. They are clean, so a page that is needed again is mapped again.
    package static func releaseCode() {
        guard let file = fopen("/proc/self/maps", "r") else { return }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 1024)
        // Adjacent parts of a file are released with one call.
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

    /// Returns the range of a part of a file that was never written to, from a line of `/proc/self/maps`.
    ///
    /// These parts are executable code, and the tables at the start of a file that the loader reads. Other read-only parts may
    /// contain addresses that the loader has filled in.
    private static func cleanPart(_ line: String) -> (start: UInt, end: UInt)? {
        let words = line.split(separator: " ")
        guard words.count > 5, words[5].hasPrefix("/"),
            words[1] == "r-xp" || words[1] == "r--p" && words[2] == "00000000"
        else { return nil }
        let bounds = words[0].split(separator: "-").compactMap { UInt($0, radix: 16) }
        return bounds.count == 2 && bounds[1] > bounds[0] ? (bounds[0], bounds[1]) : nil
    }
}
