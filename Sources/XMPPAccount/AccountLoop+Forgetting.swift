import Handlers

// The marks of messages that were handled grow with every message; the main program removes the old ones.
extension AccountLoop {
    /// The progress of forgetting marks of received messages.
    enum Forgetting {
        /// The next look comes at that time of the monotonic clock.
        case waiting(until: Duration)
        /// Marks of an older form are being moved.
        case moving
        case walking(SeenTable.Walk)
    }

    /// Delay before forgetting is tried again when it could not be done.
    static let forgettingDelay = Duration.seconds(600)

    /// When marks are looked at, by the monotonic clock; nil before the stream has caught up: a duplicate of a message whose mark is
    /// gone would count as new.
    var forgettingDue: Duration? {
        guard account.configuration.role == .main, machine.stream?.hasCaughtUp == true else { return nil }
        return if case .waiting(let until) = forgetting { until } else { now }
    }

    /// Looks at some marks, if it is time to.
    func forgetDuplicates() {
        guard let due = forgettingDue, due <= now else { return }
        do {
            forgetting = try owner.run { step in try forgetMore(in: step) }
        } catch {
            react(to: error, while: .forgetting)
        }
    }

    private func forgetMore(in step: borrowing Step) throws -> Forgetting {
        switch forgetting {
        case .waiting, .moving:
            if try account.seen.move(in: step) { return .moving }
            let rest = try account.seen.timeUntilForgetting(in: step)
            if rest > .zero { return .waiting(until: now + rest) }
            let needed = try account.neededMarks(in: step)
            if needed.areAllNeeded { return .waiting(until: now + Self.forgettingDelay) }
            return .walking(
                SeenTable.Walk(
                    age: account.configuration.recognizesDuplicatesFor, needed: needed, now: step.now))
        case .walking(var walk):
            let hasMore = try account.seen.forget(&walk, in: step)
            return hasMore ? .walking(walk) : .waiting(until: now + SeenTable.forgetsEvery)
        }
    }
}
