/// When the runners of a store look at each scope again.
///
/// It repeats what rows say, so an entry may be too early: a look then finds nothing and sets the next.
struct Timetable {
    private var byWall = EarliestFirst<HandlerScope?, Timestamp>()
    private var byMonotonic = EarliestFirst<HandlerScope?, Duration>()
    /// The scopes to look at now, in the order in which they came.
    private var marked: [HandlerScope?] = []
    private var isMarked: Set<HandlerScope?> = []
    /// The scopes at which a look is made.
    private var looked: Set<HandlerScope?> = []

    /// Whether something waits for a clock.
    var isWaiting: Bool { !byWall.isEmpty || !byMonotonic.isEmpty }

    /// The number of times in memory, also of those that were replaced.
    var storedTimes: Int { byWall.count + byMonotonic.count }

    /// Requests a look at a scope.
    mutating func mark(_ scope: HandlerScope?) {
        if isMarked.insert(scope).inserted { marked.append(scope) }
    }

    /// Starts a look. Until ``endLook(_:)`` it is unknown whether the look sees what is added.
    mutating func startLook(at scopes: some Sequence<HandlerScope?>) { looked = Set(scopes) }

    /// Stores the results of a look: the times of scopes that come first among those of the look.
    mutating func endLook(_ times: some Sequence<(HandlerScope?, DueTimes)>) {
        looked = []
        for (scope, times) in times {
            byWall.set(scope, times.wall)
            byMonotonic.set(scope, times.monotonic)
        }
    }

    /// Adds the times of a row that was found without a look.
    ///
    /// - Returns: Whether one of them is earlier than those of the scope before.
    mutating func add(_ scope: HandlerScope?, _ times: DueTimes) -> Bool {
        if looked.contains(scope) {
            mark(scope)
            return true
        }
        let isEarlier = byWall.add(scope, times.wall)
        return byMonotonic.add(scope, times.monotonic) || isEarlier
    }

    /// Removes and returns the scopes to look at now: the marked ones first, then those whose time has come, longest due first.
    mutating func takeReady(wall: Timestamp, monotonic: Duration) -> [HandlerScope?] {
        while let scope = byWall.takeFirst(until: wall) { mark(scope) }
        while let scope = byMonotonic.takeFirst(until: monotonic) { mark(scope) }
        defer { (marked, isMarked) = ([], []) }
        return marked
    }

    /// How long nothing is to be looked at; nil when nothing waits.
    mutating func rest(wall: Timestamp, monotonic: Duration) -> Duration? {
        marked.isEmpty
            ? DueTimes(wall: byWall.first?.time, monotonic: byMonotonic.first?.time)
                .rest(wall: wall, monotonic: monotonic) : .zero
    }
}
