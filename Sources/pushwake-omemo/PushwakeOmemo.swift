// pushwake-omemo: the devices, fingerprints and trust in a store; `pushwake omemo` runs it.
//
// A program of its own: it links libomemo-c, which is under the GPL, and pushwake does not.

import Glibc

@main
struct PushwakeOmemo {
    static func main() {
        do {
            try OmemoCommand(Array(CommandLine.arguments.dropFirst())).run()
        } catch let error as UsageError {
            complain("\(error)\n\n\(OmemoCommand.help)")
            exit(64)
        } catch {
            complain("\(error)")
            exit(1)
        }
    }

    private static func complain(_ text: String) {
        let line = Array("pushwake omemo: \(text)\n".utf8)
        _ = write(STDERR_FILENO, line, line.count)
    }
}

/// A command line that cannot be understood.
struct UsageError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// A failure with a sentence for the person at the terminal.
struct CommandFailure: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
