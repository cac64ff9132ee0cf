// pushwake-omemo: the devices, fingerprints and trust in a store, and simulated worlds with OMEMO; `pushwake omemo` runs it.
//
// A program of its own: it links libomemo-c, which is under the GPL, and pushwake does not.

import Glibc
import WorldCommands

@main
struct PushwakeOmemo {
    static func main() {
        let words = Array(CommandLine.arguments.dropFirst())
        if words.first == "world" {
            WorldCommand.main("omemo world", Array(words.dropFirst())) { try SecretWorld($0, seed: $1) }
        }
        do {
            try OmemoCommand(words).run()
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
