import Glibc

/// The physical memory of this process.
package enum PhysicalMemory {
    /// A figure of `/proc/self/status`, such as `VmHWM:`.
    ///
    /// - Returns: KiB.
    /// - Throws: ``NoFigure``: a test must not go on with zero.
    package static func kibibytes(_ name: String) throws(NoFigure) -> Int {
        guard let file = fopen("/proc/self/status", "r") else { throw NoFigure(name: name) }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        while fgets(&line, Int32(line.count), file) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            let words = text.split { $0 == " " || $0 == "\t" }
            if words.first == name[...], words.count > 1, let figure = Int(words[1]) { return figure }
        }
        throw NoFigure(name: name)
    }

    /// The most that it has taken so far, in KiB.
    package static var peak: Int { get throws(NoFigure) { try kibibytes("VmHWM:") } }
    /// What it takes now, in KiB.
    package static var resident: Int { get throws(NoFigure) { try kibibytes("VmRSS:") } }

    /// The kernel does not say it.
    package struct NoFigure: Error {
        let name: String
    }
}
