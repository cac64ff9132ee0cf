import Platform
import Synchronization

/// A thread that calls the turns of many loops.
///
/// It starts with the first loop and ends with the last one. A turn costs the same for one loop and for ten thousand. Loops that
/// are ready at the same time share a commit if they can; see ``GroupedLoop``. Where a turn may take longer than others can wait,
/// the thread only waits, and ``WorkThreads`` call the turns.
final class SharedThread: Sendable {
    /// Where a thread starts when there is a loop for it, again and again.
    final class Place: Sendable {
        fileprivate let name: String
        fileprivate let blocksSignals: Bool
        fileprivate let workers: WorkThreads?
        /// The thread that takes new loops.
        fileprivate let current = Mutex<SharedThread?>(nil)
        /// The number of loops that have not ended.
        let count = Atomic<Int>(0)

        init(_ name: String, blocksSignals: Bool, workers: WorkThreads?) {
            (self.name, self.blocksSignals, self.workers) = (name, blocksSignals, workers)
        }
    }

    /// The key of the signal in the queue of events; those of the loops are greater.
    private static let signalKey: UInt32 = 0

    private struct State {
        var arrived: [(member: Member, make: @Sendable () -> any DrivenLoop)] = []
        /// The loops whose own signals were raised.
        var woken: [UInt32] = []
        /// The loops whose turns workers have finished.
        var finished: [UInt32] = []
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
            var over: [Member] = []
            for key in take(\.finished) {
                end(key, &members, &over)
                // With the next wait, which also says what its descriptors have.
                if members.loops[key]?.removeReady() == true { wake(key) }
            }
            for (member, make) in take(\.arrived) {
                ready.append(
                    members.add { key in Turns(member, make()) { [weak self] in self?.wake(key) } })
            }
            let now = SystemTime.monotonicNanoseconds()
            while let key = members.deadlines.takeFirst(until: now) {
                if members.loops[key]?.setReady() == true { ready.append(key) }
            }
            if let workers = place.workers, workers.isNeeded {
                start(ready, &members, workers)
            } else {
                turn(ready, &members, &over)
            }
            let isLast = members.loops.isEmpty && endIfIdle()
            place.count.subtract(over.count, ordering: .relaxed)
            for member in over { member.isOver.withLock { $0 = true } }
            if isLast { return }
        }
    }

    /// Calls the turns of loops.
    ///
    /// - Parameter over: Gets the loops whose last turn that was. Nothing else here has them any more.
    private func turn(_ ready: [UInt32], _ members: inout Members, _ over: inout [Member]) {
        let started = ready.compactMap { key in members.loops[key].map { (key, $0.start()) } }
        var (keys, turns) = (started.map(\.0)[...], started.map(\.1)[...])
        while !turns.isEmpty {
            let count = Turn.run(turns)
            for key in keys.prefix(count) { end(key, &members, &over) }
            (keys, turns) = (keys.dropFirst(count), turns.dropFirst(count))
        }
    }

    /// Has the turns of loops called by workers.
    private func start(_ ready: [UInt32], _ members: inout Members, _ workers: WorkThreads) {
        for key in ready {
            guard let turns = members.loops[key] else { continue }
            let turn = turns.start()
            members.deadlines.set(key, nil)
            workers.add(turn, in: turn.place, worker: turns.member.worker) { [weak self] in self?.finish(key)
            }
        }
    }

    /// Waits for what a loop wants after its turn.
    private func end(_ key: UInt32, _ members: inout Members, _ over: inout [Member]) {
        guard let turns = members.loops[key] else { return }
        turns.end()
        turns.arm(key, in: events, &members.owners)
        members.deadlines.set(key, turns.isOver ? nil : turns.deadline)
        guard turns.isOver else { return }
        members.loops[key] = nil
        over.append(turns.member)
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

    /// Makes the end of a loop's turn due; called by a worker.
    private func finish(_ key: UInt32) {
        let isFirst = state.withLock { state in
            state.finished.append(key)
            return state.finished.count == 1
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
                for key in take(\.woken) where members.loops[key]?.setReady() == true { ready.append(key) }
            } else if members.loops[event.key]?.find(event) == true {
                ready.append(event.key)
            }
        }
        return ready
    }

    /// Removes what others have left for the thread.
    private func take<Part>(_ parts: any WritableKeyPath<State, [Part]> & Sendable) -> [Part] {
        state.withLock { state in
            defer { state[keyPath: parts] = [] }
            return state[keyPath: parts]
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
        if number.load(ordering: .relaxed) == ThreadID.current.number || member.worker.isCurrent { return }
        _ = member.isOver.wait(limit: nil) { $0 ? true : nil }
        guard state.withLock({ $0.hasEnded }) else { return }
        // With the lock held: each caller that closes the last loops returns after the thread's end.
        thread.withLock { $0?.join() }
    }

    /// A loop as its owner sees it. It keeps nothing of the loop, whose files must be closed when ``join()`` returns.
    private final class Member: RunningLoop {
        let isOver = Monitor(false)
        let worker = WorkThreads.Worker()
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
        /// The turn that has started and not ended.
        private var running: Turn?
        /// The descriptors that were armed.
        private var armed: Set<Int32> = []
        /// Whether the last turn has ended.
        private(set) var isOver = false

        /// - Parameter wake: Makes the next turn due; called on any thread.
        init(_ member: Member, _ loop: any DrivenLoop, wake: @escaping @Sendable () -> Void) {
            (self.member, self.loop) = (member, loop)
            loop.signal?.attach(wake)
        }

        /// When the pause is over, by the monotonic clock in nanoseconds; nil for no limit.
        var deadline: Int64? {
            pause.milliseconds.map {
                SystemTime.monotonicNanoseconds() + min(max(0, $0), Self.longestPause) * 1_000_000
            }
        }

        /// Stores what was found. What is found during a turn is found again after it.
        ///
        /// - Returns: Whether the turn can start now, and was not due before.
        func find(_ event: EventQueue.Event) -> Bool {
            if running != nil { return false }
            for index in pause.entries.indices where pause.entries[index].descriptor == event.descriptor {
                pause.entries[index].set(found: event.found)
            }
            return setReady()
        }

        /// Makes the next turn due.
        ///
        /// - Returns: Whether it can start now, and was not due before.
        func setReady() -> Bool {
            defer { isReady = true }
            return !isReady && running == nil
        }

        /// Returns whether the next turn was made due during the last one, and is so no longer.
        func removeReady() -> Bool {
            defer { isReady = false }
            return isReady
        }

        /// Starts a turn; ``end()`` follows once it has been run.
        func start() -> Turn {
            isReady = false
            // First: what is raised from here on makes another turn due. A descriptor is for the loop to clear.
            loop.signal?.clearAtTurn()
            let turn = Turn(loop, pause.entries)
            running = turn
            return turn
        }

        func end() {
            isOver = running?.next == nil
            pause = running?.next ?? Pause([])
            running = nil
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
