import Glibc
import Handlers

/// An async handler that waits until it is canceled the first time, and ends when it is run again.
private struct Upload: AsyncHandler {
    static let id = "suspend.upload"
    static let retry = RetryPolicy(attempts: 5, firstDelay: .zero)
    func run(_ call: AsyncCall<TimerFired>) async throws {
        say("uploading")
        while true { try await Task.sleep(for: .seconds(60)) }
    }
}

private struct Tick: Handler {
    static let id = "suspend.tick"
    func run(_ call: borrowing Call<TimerFired>) throws { say("tick") }
}

/// `suspend DATABASE`: runs an async handler that does not end, suspends the store when a line comes, and stops itself. Continued, it
/// resumes, and calls a timer.
func suspend(_ arguments: [String]) throws {
    let store = try HandlerStore(path: arguments[0], registry: HandlerRegistry([Upload.self, Tick.self]))
    let runner = try HandlerRunner(store)
    try store.step { _ = try $0.schedule(Upload().durable, after: .zero) }
    try runner.start()
    _ = readLine()
    try store.suspend()
    say("suspended")
    kill(getpid(), SIGSTOP)
    try store.resume()
    say("resumed")
    try store.step { _ = try $0.schedule(Tick().durable, after: .zero) }
    _ = readLine()
    runner.close()
}
