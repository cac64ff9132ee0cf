// Processes for HandlersTests to stop, to watch and to kill. One subcommand a file.

import Glibc

let subcommands: [String: ([String]) throws -> Void] = [
    "slot": slot,
    "mark-for-ever": markForEver,
    "bind": bindWork,
    "work": work,
    "requeue": requeue,
    "deadly": deadly,
    "hold": hold,
    "suspend": suspend,
]

let arguments = Array(CommandLine.arguments.dropFirst())
guard let name = arguments.first, let subcommand = subcommands[name] else {
    fail("usage: HandlersTestProgram \(subcommands.keys.sorted().joined(separator: "|")) ARGUMENTS")
}
do {
    try subcommand(Array(arguments.dropFirst()))
} catch {
    fail("\(error)")
}
