import Platform
import Synchronization

/// A thread that calls the turns of many loops.
///
/// It starts with the first loop and ends with the last one. A turn costs the same for one loop and for ten thousand. Loops that
/// are ready at the same time share a commit if they can; see ``GroupedLoop``.
final class SharedThread: Sendable {
    /// Where a thread starts when there is a loop for it, again and again.
    final class Place: Sendable {
        fileprivate let name: String
        fileprivate let blocksSignals: Bool
        /// The thread that takes new loops.
        fileprivate let current = Mutex<SharedThread?>(nil)
        /// The number of loops that have not ended.
        let count = Atomic<Int>(0)

        init(_ name: String, blocksSignals: Bool) { (self.name, self.blocksSignals) = (name, blocksSignals) }
    }

    /// The key of the signal in the queue of events; those of the loops are greater.
    private static let signalKey: UInt32 = 0

    private struct State {
        var arrived: [(member: Member, make: @Sendable () -> any DrivenLoop)] = []
        /// The loops whose own signals were raised.
        var woken: [UInt32] = []
        var hasEnded = false
    }

    private let place: Place

    private let state = Mutex(State())
    private let signal: WakeSignal
    private let events: EventQueue
    private let thread = Mutex<WorkerThread?>(nil)
    /// Number of the thread while it runs.
    private let number = Atomic<UInt>(0)

    /// Starts to call the turns of a loop that `make` makes on the thread.
    static func start(
        at place: Place, _ make: @escaping @Sendable () -> any DrivenLoop
    ) throws(HandlerError) -> any RunningLoop {
        try place.current.withLock { (current) throws(HandlerError) in
            let shared: SharedThread
            if let current { shared = current } else { shared = try SharedThread(place) }
            let member = Member(shared)
            shared.state.withLock { $0.arrived.append((member, make)) }
            if current == nil {
                // It finds its first loop when it starts.
                let thread = try WorkerThread(place.name, blocksSignals: place.blocksSignals) { shared.run() }
                shared.thread.withLock { $0 = thread }
                current = shared
            } else {
                shared.signal.raise()
            }
            place.count.add(1, ordering: .relaxed)
            return member
        }
    }

    private init(_ place: Place) throws(HandlerError) {
        self.place = place
        signal = try WakeSignal()
        do throws(Errno) {
            events = try EventQueue()
            try events.arm(PollEntry(signal.fileDescriptor), key: Self.signalKey)
        } catch {
            throw HandlerError(
                .resourcesExhausted,
                "no event queue could be made (\(error)); raise the process's limit of open files")
        }
    }

    private func run() {
        number.store(ThreadID.current.number, ordering: .relaxed)
        var members = Members()
        while true {
            var ready = wait(for: &members)
            for (member, make) in takeArrived() {
                ready.append(
                    members.add { key in Turns(member, make()) { [weak self] in self?.wake(key) } })
            }
            let now = SystemTime.monotonicNanoseconds()
            while let key = members.deadlines.takeFirst(until: now) {
                if members.loops[key]?.setReady() == true { ready.append(key) }
            }
            var (over, rest): ([Member], ArraySlice<UInt32>) = ([], ready[...])
            while !rest.isEmpty { rest = rest.dropFirst(turn(rest, &members, &over)) }
            let isLast = members.loops.isEmpty && endIfIdle()
            place.count.subtract(over.count, ordering: .relaxed)
            for member in over { member.isOver.withLock { $0 = true } }
            if isLast { return }
        }
    }

    /// The time after which no further turn starts before the started ones end, in nanoseconds: they have read what is not stored.
    private static let longestStart: Int64 = 10_000_000

    /// Calls the turns of loops.
    ///
    /// - Parameter over: Gets the loops whose last turn that was. Nothing else here has them any more.
    /// - Returns: The number of loops, from 1.
    private func turn(
        _ ready: ArraySlice<UInt32>, _ members: inout Members, _ over: inout [Member]
    ) -> Int {
        let end = SystemTime.monotonicNanoseconds() + Self.longestStart
        var started: [(key: UInt32, turns: Turns, work: (any GroupedWork)?)] = []
        var count = 0
        for key in ready {
            count += 1
            if let turns = members.loops[key] { started.append((key, turns, turns.start())) }
            if SystemTime.monotonicNanoseconds() >= end { break }
        }
        GroupedTurns.run(started.compactMap(\.work))
        for (key, turns, work) in started {
            if work != nil { turns.end() }
            turns.arm(key, in: events, &members.owners)
            members.deadlines.set(key, turns.isOver ? nil : turns.deadline)
            guard turns.isOver else { continue }
            members.loops[key] = nil
            over.append(turns.member)
        }
        return count
    }

    /// The loops of the thread.
    private struct Members {
        var loops: [UInt32: Turns] = [:]
        /// When the pauses of loops end.
        var deadlines = EarliestFirst<UInt32, Int64>()
        /// The loop by which each descriptor was armed last.
        var owners: [Int32: UInt32] = [:]
        private var lastKey = SharedThread.signalKey

        /// Adds a loop under a key that no loop has.
        ///
        /// - Returns: The key.
        mutating func add(_ make: (UInt32) -> Turns) -> UInt32 {
            repeat { lastKey &+= 1 } while lastKey == SharedThread.signalKey || loops[lastKey] != nil
            loops[lastKey] = make(lastKey)
            return lastKey
        }
    }

    /// Makes a loop's next turn due.
    private func wake(_ key: UInt32) {
        let isFirst = state.withLock { state in
            state.woken.append(key)
            return state.woken.count == 1
        }
        if isFirst { signal.raise() }
    }

    /// Waits for descriptors, at most until the first deadline.
    ///
    /// - Returns: The loops of the descriptors that were found, each once.
    private func wait(for members: inout Members) -> [UInt32] {
        let deadline = members.loops.isEmpty ? 0 : members.deadlines.first?.time
        // Rounded up, so that the time is over afterwards.
        let rest = deadline.map { max(0, ($0 - SystemTime.monotonicNanoseconds() + 999_999) / 1_000_000) }
        var ready: [UInt32] = []
        for event in events.wait(milliseconds: rest.map { Int32(clamping: $0) } ?? -1) {
            if event.key == Self.signalKey {
                // Before it takes the loops that have arrived or were woken.
                signal.clear()
                try? events.arm(PollEntry(signal.fileDescriptor), key: Self.signalKey)
                for key in takeWoken() where members.loops[key]?.setReady() == true { ready.append(key) }
            } else if members.loops[event.key]?.find(event) == true {
                ready.append(event.key)
            }
        }
        return ready
    }

    private func takeArrived() -> [(member: Member, make: @Sendable () -> any DrivenLoop)] {
        state.withLock { state in
            defer { state.arrived = [] }
            return state.arrived
        }
    }

    private func takeWoken() -> [UInt32] {
        state.withLock { state in
            defer { state.woken = [] }
            return state.woken
        }
    }

    /// Returns whether the thread ends: no loop has arrived, and none will.
    private func endIfIdle() -> Bool {
        place.current.withLock { current in
            state.withLock { $0.hasEnded = $0.arrived.isEmpty }
            guard state.withLock({ $0.hasEnded }) else { return false }
            current = nil
            return true
        }
    }

    private func join(_ member: Member) {
        if number.load(ordering: .relaxed) == ThreadID.current.number { return }
        _ = member.isOver.wait(limit: nil) { $0 ? true : nil }
        guard state.withLock({ $0.hasEnded }) else { return }
        // With the lock held: each caller that closes the last loops returns after the thread's end.
        thread.withLock { $0?.join() }
    }

    /// A loop as its owner sees it. It keeps nothing of the loop, whose files must be closed when ``join()`` returns.
    private final class Member: RunningLoop {
        let isOver = Monitor(false)
        private let thread: SharedThread

        init(_ thread: SharedThread) { self.thread = thread }

        func join() { thread.join(self) }
    }

    /// The turns of a loop; used on the thread alone.
    private final class Turns {
        /// The wait for a descriptor that could not be armed.
        private static let failurePause: Int64 = 10

        /// The longest pause in milliseconds, as the end must be a number of nanoseconds: 73 years.
        private static let longestPause = Int64.max / 4_000_000

        let member: Member
        private let loop: any DrivenLoop
        /// The descriptors to wait for, or those of the last wait with what it found.
        private var pause = Pause.none
        /// Whether the next turn is due.
        private var isReady = false
        /// The descriptors that were armed.
        private var armed: Set<Int32> = []

        /// The loop, if its steps can share a commit.
        private let grouped: (any GroupedLoop)?
        /// Whether the last turn has ended.
        private(set) var isOver = false

        /// - Parameter wake: Makes the next turn due; called on any thread.
        init(_ member: Member, _ loop: any DrivenLoop, wake: @escaping @Sendable () -> Void) {
            (self.member, self.loop, grouped) = (member, loop, loop as? any GroupedLoop)
            loop.signal?.attach(wake)
        }

        /// When the pause is over, by the monotonic clock in nanoseconds; nil for no limit.
        var deadline: Int64? {
            pause.milliseconds.map {
                SystemTime.monotonicNanoseconds() + min(max(0, $0), Self.longestPause) * 1_000_000
            }
        }

        /// Stores what was found.
        ///
        /// - Returns: Whether the turn was not due before.
        func find(_ event: EventQueue.Event) -> Bool {
            for index in pause.entries.indices where pause.entries[index].descriptor == event.descriptor {
                pause.entries[index].set(found: event.found)
            }
            return setReady()
        }

        /// Returns whether the turn was not due before.
        func setReady() -> Bool {
            defer { isReady = true }
            return !isReady
        }

        /// Runs a turn, or its first part.
        ///
        /// - Returns: The work after which ``end()`` runs the rest; nil when the turn is complete.
        func start() -> (any GroupedWork)? {
            isReady = false
            // First: what is raised from here on makes another turn due. A descriptor is for the loop to clear.
            loop.signal?.clearAtTurn()
            guard let grouped else {
                take(loop.turn(pause.entries))
                return nil
            }
            if let work = grouped.startTurn(pause.entries) { return work }
            take(grouped.endTurn())
            return nil
        }

        func end() { take(grouped?.endTurn()) }

        private func take(_ next: Pause?) {
            pause = next ?? Pause([])
            isOver = next == nil
        }

        /// Waits for the descriptors of the pause. All are armed again: one that was found waits no longer, and one that the turn
        /// closed may have left its number to another file.
        ///
        /// - Parameter owners: The loop by which each descriptor was armed last.
        func arm(_ key: UInt32, in events: EventQueue, _ owners: inout [Int32: UInt32]) {
            let old = armed
            armed = []
            for entry in pause.entries where entry.descriptor >= 0 {
                do throws(Errno) {
                    try events.arm(entry, key: key)
                    armed.insert(entry.descriptor)
                    owners[entry.descriptor] = key
                } catch {
                    pause.limit(to: Self.failurePause)
                }
            }
            for descriptor in old.subtracting(armed) where owners[descriptor] == key {
                events.remove(descriptor)
                owners[descriptor] = nil
            }
        }
    }
}
