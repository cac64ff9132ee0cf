/// One time for each key, earliest first: a heap in which a time that was replaced stays until it comes first.
struct EarliestFirst<Key: Hashable, Time: Comparable> {
    private var times: [Key: Time] = [:]
    private var heap: [(time: Time, key: Key)] = []

    var isEmpty: Bool { times.isEmpty }
    var count: Int { heap.count }

    mutating func set(_ key: Key, _ time: Time?) {
        guard times[key] != time else { return }
        times[key] = time
        guard let time else { return }
        // What was replaced is at most half of the heap, and a few.
        if heap.count > 2 * times.count + 64 {
            heap = times.map { ($0.value, $0.key) }.sorted { $0.time < $1.time }
            return
        }
        heap.append((time, key))
        var child = heap.count - 1
        while child > 0, heap[child].time < heap[(child - 1) / 2].time {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// Sets the time if it is earlier than the one before.
    ///
    /// - Returns: Whether it was.
    mutating func add(_ key: Key, _ time: Time?) -> Bool {
        guard let time, times[key].map({ time < $0 }) ?? true else { return false }
        set(key, time)
        return true
    }

    /// The earliest time and its key.
    var first: (time: Time, key: Key)? {
        mutating get {
            while let first = heap.first {
                if times[first.key] == first.time { return first }
                removeFirst()
            }
            return nil
        }
    }

    /// Removes and returns the key of the earliest time that is not after `time`; nil when there is none.
    mutating func takeFirst(until time: Time) -> Key? {
        guard let first, first.time <= time else { return nil }
        removeFirst()
        times[first.key] = nil
        return .some(first.key)
    }

    private mutating func removeFirst() {
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < heap.count && heap[child].time < heap[least].time {
                least = child
            }
            if least == parent { return }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}
