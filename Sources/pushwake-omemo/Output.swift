import Glibc
import XMPPCore

/// What a person at the terminal sees. No other file of the program writes to a terminal.
enum Output {
    /// Writes one line to standard output.
    static func say(_ line: VisibleText) { print(line) }

    /// Writes a complaint to standard error.
    static func complain(_ text: VisibleText) {
        let line = Array("pushwake omemo: \(text)\n".utf8)
        _ = write(STDERR_FILENO, line, line.count)
    }
}
