import Glibc
import Handlers

// Handlers in which the process dies.

private let three = RetryPolicy(attempts: 5, firstDelay: .zero, deaths: 3, finally: .orElse)

private func die(_ word: String) -> Never {
    say(word)
    kill(getpid(), SIGKILL)
    while true { pause() }
}

private struct Kills: Handler {
    static let id = "deadly.kills"
    static let retry = three
    func run(_ call: borrowing Call<TimerFired>) throws { die("dying") }
}

private struct Gone: Handler {
    static let id = "deadly.gone"
    var isDeadly: Bool
    func run(_ call: borrowing Call<Invalidation>) throws {
        if isDeadly { die("dying again") }
        say("gone: \(call.handler) \(call.reason)")
    }
}

/// `deadly DATABASE bind kills|kills-twice`: stores a timer in which the process dies; in the latter case its invalidation
/// handler kills the process, too. `deadly DATABASE`: calls what is due.
func deadly(_ arguments: [String]) throws {
    let store = try HandlerStore(path: arguments[0], registry: HandlerRegistry([Kills.self, Gone.self]))
    if arguments.count == 3 {
        let gone = Gone(isDeadly: arguments[2] == "kills-twice")
        try store.step { step in
            _ = try step.schedule(Kills().durable.orElse(gone.durable), after: .zero)
        }
        return say("bound")
    }
    let runner = try HandlerRunner(
        store,
        .init { error in
            guard let failure = error as? HandlerFailure else { return say("\(error)") }
            say("failed after \(failure.deaths) deaths, invalidated: \(failure.isInvalidated)")
        })
    try runner.runDue()
    runner.close()
    say("idle")
}
