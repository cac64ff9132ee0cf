import FoundationEssentials
import Glibc

/// The lines added to a file that only grows.
struct LogTail {
    private let path: String
    /// Up to where the file was read, at the end of a line.
    private var offset: UInt64 = 0

    init(_ path: String) { self.path = path }

    /// The lines that were added since the last call; one that is not complete yet comes with a later call.
    mutating func newLines() throws -> [Substring] {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw SimulationError("\(path) cannot be read: error \(errno)") }
        defer { close(file) }
        lseek(file, Int(offset), SEEK_SET)
        var bytes: [UInt8] = []
        var block = [UInt8](repeating: 0, count: 1 << 16)
        while case let count = read(file, &block, block.count), count > 0 { bytes += block.prefix(count) }
        guard let end = bytes.lastIndex(of: UInt8(ascii: "\n")) else { return [] }
        offset += UInt64(end + 1)
        return String(decoding: bytes[..<end], as: UTF8.self).split(separator: "\n")
    }
}
