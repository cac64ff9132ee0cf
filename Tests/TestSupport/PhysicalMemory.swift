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

    // MARK: What a worker has

    /// How much more memory a process may take, in KiB: a worker has 24 MiB, of which it has taken some 14 when it starts.
    private static let workersGrowth = 10 * 1024

    /// Runs `body` and throws if the process took more memory for it than a worker has.
    ///
    /// Only in a process of its own, since the peak is that of its life.
    ///
    /// - Throws: ``TooMuch``; what `body` throws.
    package static func withinWorker<Value>(_ body: () throws -> Value) throws -> Value {
        let resident = try resident
        let value = try body()
        let growth = try peak - resident
        guard growth <= workersGrowth else { throw TooMuch(growth: growth) }
        return value
    }

    /// More than a worker has.
    package struct TooMuch: Error {
        /// In KiB.
        let growth: Int
    }
}
