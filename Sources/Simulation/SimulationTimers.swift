package import Handlers

// The delayed work of the simulation. Some messages set a timer, and every other timer fails at first and is retried. Each timer
// then makes an async handler file a row.
extension SimulationApp {
    /// The handlers in the plain form, which the program file does not list.
    package static let handlers: [any DurableHandler.Type] = [
        Remind.self, File.self, Stranger.self, StrangerGone.self,
    ]

    package static func setTimer(_ n: Int, in step: borrowing Step) throws {
        let handler = try step.schedule(Remind(n: n).durable, after: .milliseconds(5))
        try step.execute("INSERT INTO sim_timer(handler) VALUES (?)", handler)
    }

    struct TooEarly: Error, CustomStringConvertible {
        let description = "this one works at the second attempt"
    }

    /// A timer.
    struct Remind: Handler {
        static let id = "simulation.remind"
        static let retry = RetryPolicy(firstDelay: .milliseconds(5), factor: 1, deaths: .max)
        var n: Int

        func run(_ call: borrowing Call<TimerFired>) throws {
            guard let timer = call.handlerID?.rawValue else { return }
            try call.step.execute("INSERT INTO sim_filing(timer) VALUES (?)", timer)
            try call.step.run(File().durable, with: Filing(timer: timer))
            if n % 2 == 0 && call.attempt == 1 { throw TooEarly() }
        }
    }

    /// The row to file.
    struct Filing: RestorableContext, Codable { var timer: Int64 }

    /// An async handler. It may run again after the death of its process, and ends once.
    struct File: AsyncHandler {
        static let id = "simulation.file"
        static let retry = RetryPolicy(firstDelay: .milliseconds(5), factor: 1, deaths: .max)

        func run(_ call: AsyncCall<Filing>) async throws {
            await Task.yield()
            try call.end { step in
                try step.execute(
                    "INSERT INTO sim_filed(timer, key) VALUES (?, ?)", call.timer, call.idempotencyKey)
            }
        }
    }
}
