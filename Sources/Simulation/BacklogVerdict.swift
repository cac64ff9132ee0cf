/// The result of a worker with a backlog.
package struct BacklogVerdict: Codable {
    package struct Wakes: Codable {
        /// The number of workers.
        package var count = 0
        /// The number of workers that ended because their time was nearly over.
        package var shortOfTime = 0
        /// The number of workers that were killed at a limit.
        package var killed = 0
        package var longestMs = 0.0
        package var peakMib = 0.0
    }

    package var server: String
    package var seed: UInt64
    /// The backlog: messages, answers, and requests without an answer.
    package var messages: Int
    package var answers: Int
    package var pending: Int
    /// The means that kept workers within their limits.
    package var limitsKeptBy: String
    /// The median time of wakes with nothing to do, in milliseconds, before and after the strangers' requests were stored.
    package var idleWakeMs = 0.0
    package var idleWakeWithPendingMs = 0.0
    /// The wakes that stored all messages and answers.
    package var wakes = Wakes()
    /// The number of requests that still wait, as they must.
    package var pendingLeft = 0
    /// The wakes that ended all pending requests after the session was lost; nil if the session was kept.
    package var settling: Wakes?
    /// The number of requests that ended because the session was lost.
    package var settled = 0
    /// The verdict about everything else, from the peer's log and the store.
    package var rest: Verdict?

    package init(
        server: String, seed: UInt64, messages: Int, answers: Int, pending: Int, limitsKeptBy: String
    ) {
        (self.server, self.seed, self.messages, self.answers, self.pending, self.limitsKeptBy) = (
            server, seed, messages, answers, pending, limitsKeptBy
        )
    }

    package var isGood: Bool {
        rest?.isGood == true && pendingLeft == pending && wakes.killed == 0
            && (settling.map { settled == pending && $0.killed == 0 } ?? true)
    }

    package var summary: String {
        let rest = rest ?? Verdict(server: server, seed: seed, rounds: 0)
        return """
            A worker with nothing to do took \(idleWakeMs) ms, and \(idleWakeWithPendingMs) ms with \(pending) requests \
            pending in the store.
            \(messages) messages and \(answers) answers had waited; \(Self.text(wakes)).
            Of \(rest.messages.sent) messages \(rest.messages.lost) were lost, \(rest.messages.repeated) repeated; of \
            \(rest.handlers.bound) handlers \(rest.handlers.lost) were lost, \(rest.handlers.repeated) repeated, \
            \(rest.handlers.pending) wait. \(pendingLeft) of the pending requests still waited.\(settlingText)
            Limits: \(limitsKeptBy).
            \(isGood ? "The backlog is done." : "THE PROMISE WAS BROKEN.") Seed \(seed), \(server).
            """
    }

    private var settlingText: String {
        guard let settling else { return "" }
        return "\nThen the session was lost, which ended \(settled) of them; \(Self.text(settling))."
    }

    private static func text(_ wakes: Wakes) -> String {
        """
        that took \(wakes.count) wakes, the longest \(wakes.longestMs) ms, with at most \(wakes.peakMib) MiB; \
        \(wakes.shortOfTime) left something because their time was nearly over, \(wakes.killed) were killed at a limit
        """
    }
}
