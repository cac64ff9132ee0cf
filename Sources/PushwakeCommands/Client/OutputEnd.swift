import Glibc
import Handlers
import XMPPCore

/// The end of standard output in a regular file, stored in the commit that marks a message as shown.
///
/// If a process is killed between writing a line and that commit, the line is after the stored end. The next process finds it
/// there.
struct OutputEnd: Equatable {
    private let device: Int64
    private let inode: Int64
    private let size: Int64

    /// The current end of standard output; nil if it is not a regular file.
    static var current: OutputEnd? {
        var status = stat()
        guard fstat(STDOUT_FILENO, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
        return OutputEnd(
            device: Int64(truncatingIfNeeded: status.st_dev), inode: Int64(truncatingIfNeeded: status.st_ino),
            size: Int64(status.st_size))
    }

    /// Returns the stored end if standard output is still the same file. Otherwise it stores and returns the current end.
    static func known(in step: borrowing Step) throws(HandlerError) -> OutputEnd? {
        guard let current else { return nil }
        let stored = try step.first("SELECT device, inode, size FROM shown_output WHERE id = 1") {
            OutputEnd(device: $0.integer(0), inode: $0.integer(1), size: $0.integer(2))
        }
        if let stored, current.isBehind(stored) { return stored }
        try current.store(in: step)
        return current
    }

    func store(in step: borrowing Step) throws(HandlerError) {
        try step.execute(
            "INSERT OR REPLACE INTO shown_output(id, device, inode, size) VALUES (1, ?, ?, ?)", device, inode,
            size)
    }

    private func isBehind(_ stored: OutputEnd) -> Bool {
        (device, inode) == (stored.device, stored.inode) && size >= stored.size
    }

    /// Returns whether the output after this end is this line, and completes a partly written line.
    func completes(_ line: VisibleText) throws -> Bool {
        let bytes = Array(line.description.utf8)
        guard let current = Self.current, current.isBehind(self), current.size - size <= bytes.count else {
            return false
        }
        let tail = Self.read(from: size, count: Int(current.size - size))
        guard !tail.isEmpty, bytes.starts(with: tail) else { return false }
        return Terminal.sayRest(bytes.dropFirst(tail.count))
    }

    /// - Returns: Fewer bytes, or none, if they cannot be read.
    private static func read(from place: Int64, count: Int) -> [UInt8] {
        // Standard output itself is only open for writing.
        let descriptor = open("/proc/self/fd/\(STDOUT_FILENO)", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return [] }
        defer { close(descriptor) }
        return [UInt8](unsafeUninitializedCapacity: count) { buffer, length in
            length = max(0, pread(descriptor, buffer.baseAddress, count, off_t(place)))
        }
    }
}
