import Glibc

/// The physical memory of this process, in KiB.
package enum Memory {
    /// The most that it has taken so far.
    package static var peak: Int { kibibytes("VmHWM:") }
    /// What it takes now.
    package static var resident: Int { kibibytes("VmRSS:") }

    /// A figure of `/proc/self/status`.
    private static func kibibytes(_ name: String) -> Int {
        guard let file = fopen("/proc/self/status", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        while fgets(&line, Int32(line.count), file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            if text.hasPrefix(name) { return Int(text.split { $0 == " " || $0 == "\t" }[1]) ?? 0 }
        }
        return 0
    }
}
