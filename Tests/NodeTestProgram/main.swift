// A program with a store on PostgreSQL, for tests that stop it and kill it.
//
//     NodeTestProgram CONNECTION hold      stays in a step that writes a note, until a line comes, and says in which run it was stored
//     NodeTestProgram CONNECTION wait      runs an async handler that says when it begins and when it is canceled

import Glibc
import Handlers
import HandlersPostgres

/// Not by print: flushing would wait for the thread that reads the standard input.
func say(_ word: String) { _ = (word + "\n").withCString { write(STDOUT_FILENO, $0, strlen($0)) } }

/// Waits until it is canceled.
struct Wait: AsyncHandler {
    static let id = "node.wait"

    func run(_ call: AsyncCall<TimerFired>) async throws {
        say("begun")
        while !Task.isCancelled { try? await Task.sleep(for: .milliseconds(5)) }
        say("canceled")
    }
}

let arguments = CommandLine.arguments
guard arguments.count == 3 else { fatalError("usage: NodeTestProgram CONNECTION hold|wait") }
let store = try HandlerStore(
    postgres: arguments[1], registry: HandlerRegistry([Wait.self]), durability: .onPrimary)
if arguments[2] == "hold" {
    // Touched by the thread of the step alone.
    nonisolated(unsafe) var runs = 0
    try store.step { step in
        runs += 1
        try step.execute("INSERT INTO note(text) VALUES ('held')")
        if runs > 1 { return }
        say("inside")
        _ = readLine()
    }
    say("stored in run \(runs)")
} else {
    let runner = try HandlerRunner(store)
    try runner.start()
    try store.step { _ = try $0.schedule(Wait().durable, after: .zero) }
    while readLine() != nil {}
    runner.close()
}
