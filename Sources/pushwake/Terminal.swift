import Glibc
import Synchronization

/// What a person at the terminal sees: complaints and progress go to standard error, results to standard output.
enum Terminal {
    static func complain(_ text: String) { writeError("pushwake: \(text)\n") }

    static func writeError(_ text: String) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
            guard count > 0 else { return }
            bytes = bytes.dropFirst(count)
        }
    }

    /// Writes one line to standard output at once, also when it is a pipe.
    ///
    /// - Returns: False when nobody takes it; ``hasLostOutput`` is then true for ever.
    @discardableResult
    static func say(_ line: String) -> Bool {
        var bytes = Array((line + "\n").utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { write(STDOUT_FILENO, $0.baseAddress, $0.count) }
            guard count > 0 else {
                lostOutput.store(true, ordering: .relaxed)
                return false
            }
            bytes = bytes.dropFirst(count)
        }
        return true
    }

    /// Whether a result could not be written: the disk is full, or whoever read it has gone.
    static var hasLostOutput: Bool { lostOutput.load(ordering: .relaxed) }
    private static let lostOutput = Atomic(false)

    /// A text of somebody else's without what would steer a terminal.
    static func harmless(_ text: String) -> String {
        String(
            String.UnicodeScalarView(
                text.unicodeScalars.map { scalar in
                    let steers =
                        scalar != "\n" && (scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value))
                        || (0x202A...0x202E).contains(scalar.value)
                        || (0x2066...0x2069).contains(scalar.value)
                    return steers ? "\u{FFFD}" : scalar
                }))
    }

    /// A number of things, in the singular where there is one.
    static func count(_ number: some BinaryInteger, _ thing: String) -> String {
        "\(number) \(thing)\(number == 1 ? "" : "s")"
    }

    static let isInteractive = isatty(STDERR_FILENO) == 1
}

/// A bar on a terminal, a plain line now and then elsewhere.
struct ProgressBar {
    private let total: Int
    private var lastPlain = -1

    init(total: Int) { self.total = max(total, 1) }

    mutating func show(_ done: Int, _ text: String) {
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
}
