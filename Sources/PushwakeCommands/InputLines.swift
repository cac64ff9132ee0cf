import Glibc

/// Reads lines of standard input without the C library's `stdin`.
///
/// ```swift
/// var lines = InputLines()
/// while let line = lines.next() { send(line) }
/// ```
///
/// A thread that waits in `readLine()` holds the lock of `stdin`. Since glibc 2.41 `exit` waits for that lock, so a program
/// with such a thread would never end.
package struct InputLines: Sequence, IteratorProtocol {
    /// The maximum number of bytes of a line. A longer line is returned in pieces of this size.
    package static let longest = 1 << 20

    private let descriptor: Int32
    private var buffer: [UInt8] = []
    /// The bytes before this index contain no line end.
    private var searched = 0

    package init(_ descriptor: Int32 = STDIN_FILENO) { self.descriptor = descriptor }

    /// Waits for the next line and returns it without its line end; nil after the last line. Invalid UTF-8 is repaired.
    package mutating func next() -> String? {
        while true {
            if let end = buffer[searched...].firstIndex(of: UInt8(ascii: "\n")) {
                return remove(end, lineEnd: 1)
            }
            searched = buffer.count
            if searched >= Self.longest { return remove(Self.longest, lineEnd: 0) }
            guard fill() else { return buffer.isEmpty ? nil : remove(buffer.count, lineEnd: 0) }
        }
    }

    private mutating func remove(_ count: Int, lineEnd: Int) -> String {
        let line = buffer[..<count]
        defer {
            buffer.removeFirst(count + lineEnd)
            searched = 0
        }
        return String(decoding: line.last == UInt8(ascii: "\r") ? line.dropLast() : line, as: UTF8.self)
    }

    /// - Returns: False at the end of the input.
    private mutating func fill() -> Bool {
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = chunk.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else { return false }
            buffer += chunk.prefix(count)
            return true
        }
    }
}
