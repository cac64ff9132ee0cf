// pushwake-world: simulated worlds; `pushwake world` runs it.
//
// It is a separate program, because it takes all tasks of the process from Swift's executor and has no asynchronous entry point.

import WorldCommands

@main
struct Program {
    static func main() { WorldCommand.main() }
}
