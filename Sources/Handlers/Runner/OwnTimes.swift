/// The times of rows of the program as a whole that this process has stored.
///
/// Each machine may call such a row, and all would look at the same moment, of which one finds it. So the machine that has stored it
/// looks first, and the others some time later, should that one be busy or dead.
struct OwnTimes {
    /// How much later the others look.
    private static let courtesy = Duration.milliseconds(200)
    /// The most times that are kept; this process is late for more, as the others are.
    private static let limit = 1024

    /// The times to come, earliest first.
    private var times: [Timestamp] = []

    /// The number of times in memory.
    var count: Int { times.count }

    /// The first place whose time is not before `time`.
    private func place(of time: Timestamp) -> Int {
        var (low, high) = (0, times.count)
        while low < high {
            let middle = (low + high) / 2
            if times[middle] < time { low = middle + 1 } else { high = middle }
        }
        return low
    }

    mutating func add(_ time: Timestamp) {
        let place = place(of: time)
        if place < times.count, times[place] == time { return }
        times.insert(time, at: place)
        if times.count > Self.limit { times.removeLast() }
    }

    /// Returns when this process looks.
    ///
    /// - Parameter due: The earliest time of the rows; nil when there is none.
    mutating func look(at due: Timestamp?, now: Timestamp) -> Timestamp? {
        // Nobody waits any longer for a row that is due for that long.
        times.removeFirst(place(of: now - Self.courtesy))
        guard let due else { return nil }
        let own = place(of: due)
        let late = due + Self.courtesy
        return own < times.count ? min(times[own], late) : late
    }
}
