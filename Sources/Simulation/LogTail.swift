import FoundationEssentials
import Platform

/// Reads the new lines of a file that only grows.
struct LogTail {
    private let path: String
    /// The offset of the first unread line.
    private var offset: UInt64 = 0

    init(_ path: String) { self.path = path }

    /// Returns the lines added since the last call. An incomplete line comes with a later call.
    mutating func newLines() throws -> [Substring] {
        var bytes: [UInt8] = []
        do {
            let file = try OpenFile(reading: path)
            var block = [UInt8](repeating: 0, count: 1 << 16)
            while true {
                let place = Int(offset) + bytes.count
                let count = try block.withUnsafeMutableBytes { try file.read(into: $0, at: place) }
                guard count > 0 else { break }
                bytes += block.prefix(count)
            }
        } catch { throw SimulationError("\(path) cannot be read: \(error)") }
        guard let end = bytes.lastIndex(of: UInt8(ascii: "\n")) else { return [] }
        offset += UInt64(end + 1)
        return String(decoding: bytes[..<end], as: UTF8.self).split(separator: "\n")
    }
}
