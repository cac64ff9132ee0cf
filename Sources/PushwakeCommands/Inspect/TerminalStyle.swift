import FoundationEssentials
import Glibc
import XMPPCore

/// The style of standard output: its width, and whether it is colored.
package struct TerminalStyle {
    /// The number of characters on a line; nil for no limit, as in a file.
    package var width: Int?
    package var isColored = false

    package init(width: Int? = nil, isColored: Bool = false) {
        self.width = width
        self.isColored = isColored
    }

    /// Returns the style from the terminal and the environment. A non-empty `NO_COLOR` turns colors off.
    static func current() -> TerminalStyle {
        guard isatty(STDOUT_FILENO) == 1 else {
            return TerminalStyle(width: variable("COLUMNS").flatMap { Int($0) })
        }
        var size = winsize()
        let isKnown = ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0 && size.ws_col > 0
        return TerminalStyle(
            width: isKnown ? Int(size.ws_col) : 80,
            isColored: hasColor(ProcessInfo.processInfo.environment))
    }

    /// - Parameter environment: The variables of the process.
    package static func hasColor(_ environment: [String: String]) -> Bool {
        environment["NO_COLOR", default: ""].isEmpty && environment["TERM"] != "dumb"
    }

    func heading(_ text: VisibleText) -> VisibleText { isColored ? "\u{1B}[1m\(text)\u{1B}[0m" : text }
    func warning(_ text: VisibleText) -> VisibleText { isColored ? "\u{1B}[31m\(text)\u{1B}[0m" : text }
    func faint(_ text: VisibleText) -> VisibleText { isColored ? "\u{1B}[2m\(text)\u{1B}[0m" : text }

    private static func variable(_ name: String) -> String? {
        guard let value = getenv(name).map({ String(cString: $0) }), !value.isEmpty else { return nil }
        return value
    }
}
