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
            Output.complain("\(error)\n\n\(OmemoCommand.help)")
            exit(64)
        } catch {
            Output.complain("\(error)")
            exit(1)
        }
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
