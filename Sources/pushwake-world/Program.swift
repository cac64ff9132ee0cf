// pushwake-world: simulated worlds; `pushwake world` runs it.
//
// A program of its own: it takes all tasks of the process from Swift's executor, and has no asynchronous entry.

import WorldCommands

@main
struct Program {
    static func main() { WorldCommand.main() }
}
