import Handlers

extension WorldApp {
    /// Starts a workflow, every other one of which waits for a signal.
    static func start(in step: borrowing Step) throws -> Int {
        let n = try next(in: step)
        try step.start(Errand(n: n).durable)
        if n % 2 != 0 { try step.schedule(Speak(n: n).durable, after: .milliseconds(n % 5 == 0 ? 0 : 25)) }
        try bound(n, "errand", in: step)
        return n
    }

    /// A workflow that waits for a timer, a handler or a signal between two operations.
    struct Errand: Workflow {
        static let id = "world.errand"
        static let retry = Listen.retry
        /// Its last operation, with which its entry ends.
        static let end = "end"
        var n: Int

        func run(_ flow: Flow) async throws -> Int {
            let begun = try await flow.step("begin") { _ in n }
            if n % 3 == 0 { try await flow.sleep(for: .milliseconds(n % 2 == 0 ? 20 : 3000)) }
            let word =
                n % 2 == 0
                ? try await flow.run(Part(n: n).durable, as: Int.self)
                : try await flow.signal("k-\(n)", as: Int.self)
            try await flow.step(Self.end) {
                try WorldApp.ended(n, word == begun ? "done" : "forged", in: $0)
            }
            return n
        }
    }
}
