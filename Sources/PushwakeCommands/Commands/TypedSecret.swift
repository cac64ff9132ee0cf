import Glibc
import XMPPCore

/// Reads a secret that the user types, without showing it.
///
/// Unlike `getpass`, ^C still ends the command, and the terminal shows typed text again.
enum TypedSecret {
    /// The terminal for the signal handler. It is set before the handler is installed.
    nonisolated(unsafe) private static var terminal: Int32 = -1
    nonisolated(unsafe) private static var before = termios()

    /// Shows a prompt and reads one line.
    ///
    /// - Returns: The line; nil without a terminal, and at the end of input.
    static func read(_ prompt: VisibleText) -> String? {
        terminal = open("/dev/tty", O_RDWR | O_CLOEXEC)
        guard terminal >= 0 else { return nil }
        defer { close(terminal) }
        guard tcgetattr(terminal, &before) == 0 else { return nil }
        return showingAgain {
            var settings = hidden
            guard tcsetattr(terminal, TCSAFLUSH, &settings) == 0 else { return nil }
            Terminal.ask(prompt, on: terminal)
            defer { Terminal.ask("\n", on: terminal) }
            return line()
        }
    }

    /// Settings that hide typed text. ^Z is an ordinary character, because it would leave the terminal in this state.
    private static var hidden: termios {
        var settings = before
        settings.c_lflag &= ~tcflag_t(ECHO)
        withUnsafeMutableBytes(of: &settings.c_cc) { $0[Int(VSUSP)] = 0 }
        return settings
    }

    /// Restores the terminal at the end, even when a signal ends the process.
    private static func showingAgain(_ body: () -> String?) -> String? {
        let signals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]
        let handlers = signals.map { number in
            signal(number) { number in
                tcsetattr(TypedSecret.terminal, TCSAFLUSH, &TypedSecret.before)
                signal(number, SIG_DFL)
                raise(number)
            }
        }
        defer {
            tcsetattr(terminal, TCSAFLUSH, &before)
            for (number, handler) in zip(signals, handlers) { signal(number, handler) }
        }
        return body()
    }

    /// Reads one line, because a terminal delivers whole lines.
    private static func line() -> String? {
        var bytes = [UInt8](repeating: 0, count: 4096)
        var count = 0
        repeat { count = Glibc.read(terminal, &bytes, bytes.count) } while count < 0 && errno == EINTR
        guard count > 0 else { return nil }
        return String(decoding: bytes[..<count].prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
    }
}
