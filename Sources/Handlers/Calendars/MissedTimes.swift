/// What a timer that follows a calendar does about its times that passed while no process ran it.
///
/// ```swift
/// try step.schedule(
///     Reminder(text: "report").durable, on: .daily(at: 9, in: "Europe/Zurich"), missed: .all(upTo: 7), key: "report")
/// ```
public enum MissedTimes: Hashable, Sendable {
    /// Its handler is not called for a time that is over for more than a minute.
    case skip
    /// Its handler is called once for all of them: for the first, with the number of the others in ``TimerFired/missed``.
    case once
    /// Its handler is called for each of the newest of them, 1 to 1000, in their order.
    /// ``TimerFired/missed`` of the first one counts those before it.
    case all(upTo: Int)
}

extension MissedTimes {
    /// The maximum number of times that are called one by one, and of those that are counted.
    static let maximum = 1000
    /// A time that is later than this is missed.
    static let punctual = Duration.seconds(60)

    /// How it is stored: how many it calls, or -1 for one call for all.
    var stored: Int64 {
        switch self {
        case .skip: 0
        case .once: -1
        case .all(let most): Int64(min(max(1, most), Self.maximum))
        }
    }

    init(stored: Int64) {
        self =
            switch stored {
            case 0: .skip
            case 1...: .all(upTo: Int(min(stored, Int64(Self.maximum))))
            default: .once
            }
    }

    /// A call of a timer, and what is left for later ones.
    struct Call: Equatable {
        /// The time for which it is called; nil when all times are skipped.
        var time: Timestamp?
        /// How many times were passed over.
        var missed = 0
        /// The next time, which may have passed, too.
        var next: Timestamp?
    }

    /// Chooses the time for which a timer is called.
    ///
    /// - Parameters:
    ///   - due: The oldest time for which it was not called. It is one even where the rule does not say so: the rule of a time
    ///     zone may have changed, or the program wants a call now.
    ///   - now: The time of the call.
    func call(_ rule: CalendarRule, due: Timestamp, now: Timestamp) -> Call {
        func passed(before time: Timestamp) -> Int {
            time == due
                ? 0 : 1 + rule.count(after: due, upTo: time - .milliseconds(1), atMost: Self.maximum - 1)
        }
        // A call that was asked for, at a time of its own.
        if rule.next(after: due - .milliseconds(1)) != due {
            return Call(time: due, next: rule.next(after: due))
        }
        switch self {
        case .once:
            let missed = rule.count(after: due, upTo: now, atMost: Self.maximum)
            return Call(time: due, missed: missed, next: rule.next(after: max(due, now)))
        case .all(let most):
            let newest = rule.latest(most, after: due, upTo: now)
            let time = newest.count < most ? due : newest.first ?? due
            return Call(time: time, missed: passed(before: time), next: rule.next(after: time))
        case .skip:
            let oldest = now - Self.punctual
            let time = due >= oldest ? due : rule.next(after: oldest - .milliseconds(1))
            guard let time, time <= now else {
                return Call(missed: passed(before: now + .milliseconds(1)), next: time)
            }
            return Call(time: time, missed: passed(before: time), next: rule.next(after: time))
        }
    }
}
