/// When something is due next in a scope.
struct DueTimes {
    /// By the wall clock.
    var wall: Timestamp?
    /// By the monotonic clock, for what goes by connected time.
    var monotonic: Duration?

    /// How long nothing is due; nil when nothing is.
    func rest(wall now: Timestamp, monotonic: Duration) -> Duration? {
        let rests = [
            wall.map { max(.zero, $0 - now) }, self.monotonic.map { max(.zero, $0 - monotonic) },
        ]
        return rests.compactMap(\.self).min()
    }
}

/// The rows that a step has written and that a runner may have to call.
struct NewDue {
    /// The earliest times by scope.
    private(set) var times: [HandlerScope?: DueTimes] = [:]
    /// When timers of the program as a whole fire again, of which others need no notice: they have just looked.
    private(set) var repeated: [Timestamp] = []
    /// Whether rows may wait in any scope.
    var isAnywhere = false

    /// Whether a process may have lost the lease of a handler that it runs.
    var isLeaseLost = false

    /// The number of places in lanes that the step gave to handlers. The handlers are due, so their scopes are among the times.
    var placed = 0

    /// The number of workflows that the step has made due by a result.
    var woken = 0

    /// The number of handlers that may be called in the step that has made them due.
    var followers: Int { placed + woken }

    /// Whether a handler was parked, which a newer program may know.
    var isParked = false

    var isEmpty: Bool { times.isEmpty && !isAnywhere && !isLeaseLost && !isParked }

    /// Adds the next time of a timer that has fired.
    mutating func addRepeated(_ scope: HandlerScope?, _ time: Timestamp?) {
        if scope == nil, let time { repeated.append(time) }
    }

    mutating func add(_ scope: HandlerScope?, wall: Timestamp? = nil, monotonic: Duration? = nil) {
        guard wall != nil || monotonic != nil else { return }
        let known = times[scope] ?? DueTimes()
        times[scope] = DueTimes(
            wall: [known.wall, wall].compactMap(\.self).min(),
            monotonic: [known.monotonic, monotonic].compactMap(\.self).min())
    }
}

/// Gets the rows that the steps of a store have committed.
protocol DueListener: AnyObject, Sendable {
    func add(_ new: NewDue)

    /// Reports that handlers may have places in lanes that no process uses.
    func lookAtPlaces()
}
