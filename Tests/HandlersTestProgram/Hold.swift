import Glibc
import Handlers

/// `hold DATABASE SQL`: runs the statement in a step, says "holding" and stays in the step until standard input ends; then
/// commits and says "committed".
func hold(_ arguments: [String]) throws {
    let store = try HandlerStore(path: arguments[0], registry: HandlerRegistry())
    try store.step { step in
        try step.execute(arguments[1])
        say("holding")
        while readLine() != nil {}
    }
    say("committed")
}
