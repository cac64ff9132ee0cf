import Glibc
import Synchronization
package import XMPPCore

/// The output to a terminal: errors and progress to standard error, results to standard output.
///
/// All output is written here, as ``VisibleText``. No other file of the program writes to a terminal.
package enum Terminal {
    package static func complain(_ text: VisibleText) { writeError("pushwake: \(text)\n") }

    package static func writeError(_ text: VisibleText) { _ = write(text, to: STDERR_FILENO) }

    /// Shows a prompt on another terminal descriptor.
    static func ask(_ text: VisibleText, on terminal: Int32) { _ = write(text, to: terminal) }

    /// Writes one line to standard output at once, even to a pipe.
    ///
    /// - Returns: False if the write failed. Then ``hasLostOutput`` stays true, or ``isClosed``.
    @discardableResult
    package static func say(_ line: VisibleText) -> Bool {
        if write("\(line)\n", to: STDOUT_FILENO) { return true }
        // A reader that has seen enough, such as `head`, closes the pipe: that is no failure.
        if errno == EPIPE {
            closed.store(true, ordering: .relaxed)
        } else {
            lostOutput.store(true, ordering: .relaxed)
        }
        return false
    }

    /// Writes the rest of a line that an earlier process has written in part.
    static func sayRest(_ bytes: ArraySlice<UInt8>) -> Bool { write(bytes, to: STDOUT_FILENO) }

    private static func write(_ text: VisibleText, to descriptor: Int32) -> Bool {
        write(Array(text.description.utf8)[...], to: descriptor)
    }

    private static func write(_ bytes: ArraySlice<UInt8>, to descriptor: Int32) -> Bool {
        var bytes = bytes
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 else { return false }
            bytes = bytes.dropFirst(count)
        }
        return true
    }

    /// Whether the reader of standard output has closed it.
    static var isClosed: Bool { closed.load(ordering: .relaxed) }
    private static let closed = Atomic(false)

    /// Whether a result could not be written, because the disk is full.
    static var hasLostOutput: Bool { lostOutput.load(ordering: .relaxed) }
    private static let lostOutput = Atomic(false)

    /// Returns a number with its noun, which is singular for one.
    package static func count(_ number: some BinaryInteger, _ thing: String) -> String {
        "\(number) \(thing)\(number == 1 ? "" : "s")"
    }

    static let isInteractive = isatty(STDERR_FILENO) == 1
}

/// A progress bar on a terminal, or occasional plain lines elsewhere.
package struct ProgressBar {
    private let total: Int
    private var lastPlain = -1

    package init(total: Int) { self.total = max(total, 1) }

    package mutating func show(_ done: Int, _ text: VisibleText) {
        if Terminal.isInteractive {
            let width = 20
            let filled = min(width, done * width / total)
            let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: width - filled)
            Terminal.writeError("\r\u{1B}[K\(bar) \(done)/\(total) \(text)")
            if done >= total { Terminal.writeError("\n") }
        } else if done * 10 / total > lastPlain || done >= total {
            lastPlain = done * 10 / total
            Terminal.writeError("\(done)/\(total) \(text)\n")
        }
    }

    /// Leaves the line of a bar that will not be full, so that an error gets its own.
    package func interrupt() { if Terminal.isInteractive { Terminal.writeError("\n") } }
}
