/// Something that happened to a handler in a step, and counts once the step has committed.
struct Happening {
    /// What happened.
    enum Kind {
        case bound
        /// A runner called it, after it had been due for that long.
        case called(Duration)
        /// A call under a lease has ended, after that time.
        case ran(Duration)
        case ended(Outcome)
        /// It failed and is tried again.
        case retried
        case parked
        /// It failed for good and waits for a person.
        case quarantined
        /// It failed for good and is invalidated.
        case failed
    }

    let name: Name
    let kind: Kind
}

extension TransactionTable {
    /// Counts something for a handler, if the step commits.
    func count(_ kind: Happening.Kind, _ name: Name) {
        transaction.happenings.append(Happening(name: name, kind: kind))
    }
}

/// What happened to the handlers of one name in some time.
///
/// ```swift
/// for (name, activity) in try store.read({ try $0.activity(since: $0.now - .seconds(3600)) }) {
///     print(name, activity.ended, activity.failed, activity.waits.quantile(0.99) ?? .zero)
/// }
/// ```
public struct HandlerActivity: Hashable, Sendable {
    /// Handlers that were bound.
    public internal(set) var bound: Int64 = 0
    /// Handlers that ended, by their outcome.
    package internal(set) var outcomes = [Int64](repeating: 0, count: Outcome.allCases.count)
    /// Calls that failed and were tried again.
    public internal(set) var retried: Int64 = 0
    /// Calls that no program knew.
    public internal(set) var parked: Int64 = 0
    /// Handlers that failed for good and were quarantined.
    public internal(set) var quarantined: Int64 = 0
    /// Handlers that failed for good and were invalidated.
    public internal(set) var invalidatedAfterFailure: Int64 = 0
    /// How long handlers were due until a runner called them.
    public internal(set) var waits = Durations()
    /// How long async handlers ran.
    public internal(set) var runs = Durations()

    /// Handlers that ended, whatever their outcome.
    public var ended: Int64 { outcomes.reduce(0, &+) }
    /// Handlers that failed for good: they were quarantined or invalidated.
    public var failed: Int64 { quarantined &+ invalidatedAfterFailure }

    /// Returns the number of handlers that ended with an outcome.
    ///
    /// - Parameter outcome: The outcome.
    /// - Returns: Their number.
    public func ended(_ outcome: Outcome) -> Int64 { outcomes[Int(outcome.rawValue) - 1] }

    /// Makes an activity of nothing.
    public init() {}

    /// Adds another activity.
    ///
    /// - Parameter other: The other one.
    public mutating func add(_ other: HandlerActivity) {
        numbers = zip(numbers, other.numbers).map { $0 &+ $1 }
        waits.add(other.waits)
        runs.add(other.runs)
    }

    /// Takes away another activity, which was added before.
    mutating func subtract(_ other: HandlerActivity) {
        numbers = zip(numbers, other.numbers).map { $0 &- $1 }
        waits.subtract(other.waits)
        runs.subtract(other.runs)
    }

    /// All numbers, in the order of the columns.
    var numbers: [Int64] {
        get { [bound] + outcomes + [retried, parked, quarantined, invalidatedAfterFailure] }
        set {
            bound = newValue[0]
            outcomes = Array(newValue[1...4])
            (retried, parked) = (newValue[5], newValue[6])
            (quarantined, invalidatedAfterFailure) = (newValue[7], newValue[8])
        }
    }

    mutating func add(_ kind: Happening.Kind) {
        switch kind {
        case .bound: bound &+= 1
        case .called(let wait): waits.add(wait)
        case .ran(let time): runs.add(time)
        case .ended(let outcome): outcomes[Int(outcome.rawValue) - 1] &+= 1
        case .retried: retried &+= 1
        case .parked: parked &+= 1
        case .quarantined: quarantined &+= 1
        case .failed: invalidatedAfterFailure &+= 1
        }
    }
}
