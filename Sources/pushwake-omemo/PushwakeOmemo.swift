// pushwake-omemo: the devices, fingerprints and trust in a store, and simulated worlds with OMEMO; `pushwake omemo` runs it.
//
// It is a separate program, because it links libomemo-c, which is under the GPL. pushwake does not link it.

import Glibc
import PushwakeCommands
import WorldCommands
import XMPPCore

@main
struct PushwakeOmemo {
    static func main() {
        let words = Array(CommandLine.arguments.dropFirst())
        if words.first == "world" {
            WorldCommand.main("omemo world", Array(words.dropFirst())) { try SecretWorld($0, seed: $1) }
        }
        do {
            if words.first == "help" || words.contains(where: { $0 == "--help" || $0 == "-h" }) {
                try Pushwake.help("omemo")
                return
            }
            try OmemoCommand(words).run()
        } catch let error as UsageError {
            complain("\(error); see 'pushwake help omemo'")
            exit(64)
        } catch {
            complain("\(error)")
            exit(1)
        }
    }

    private static func complain(_ text: VisibleText) { Terminal.writeError("pushwake omemo: \(text)\n") }
}
