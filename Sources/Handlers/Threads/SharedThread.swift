import Platform
import Synchronization

/// The thread of this process that calls the turns of all loops that never work for long.
///
/// It starts with the first of these loops and ends with the last one, so any number of stores costs one thread, and closed
/// stores leave none. A turn costs the same for one loop and for ten thousand.
final class SharedThread: Sendable {
    /// The thread that takes new loops.
    private static let current = Mutex<SharedThread?>(nil)
    /// The key of the signal in the queue of events; those of the loops are greater.
    private static let signalKey: UInt32 = 0

    private struct State {
        var arrived: [(member: Member, make: @Sendable () -> any DrivenLoop)] = []
        var hasEnded = false
    }

    private let state = Mutex(State())
    private let signal: WakeSignal
    private let events: EventQueue
    private let thread = Mutex<WorkerThread?>(nil)
    /// Number of the thread while it runs.
    private let number = Atomic<UInt>(0)

    /// Starts to call the turns of a loop that `make` makes on the thread.
    static func start(_ make: @escaping @Sendable () -> any DrivenLoop) throws(HandlerError)
        -> any RunningLoop
    {
        try current.withLock { (current) throws(HandlerError) in
            let shared: SharedThread
            if let current { shared = current } else { shared = try SharedThread() }
            let member = Member(shared)
            shared.state.withLock { $0.arrived.append((member, make)) }
            if current == nil {
                // It finds its first loop when it starts.
                let thread = try WorkerThread("shared loops", blocksSignals: true) { shared.run() }
                shared.thread.withLock { $0 = thread }
                current = shared
            } else {
                shared.signal.raise()
            }
            return member
        }
    }

    private init() throws(HandlerError) {
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
        var loops: [UInt32: Turns] = [:]
        var deadlines = EarliestFirst<UInt32, Int64>()
        var owners: [Int32: UInt32] = [:]
        var lastKey = Self.signalKey
        while true {
            var ready = wait(for: loops, until: loops.isEmpty ? 0 : deadlines.first?.time)
            for (member, make) in takeArrived() {
                lastKey = Self.nextKey(lastKey, loops)
                loops[lastKey] = Turns(member, make())
                ready.append(lastKey)
            }
            let now = SystemTime.monotonicNanoseconds()
            while let key = deadlines.takeFirst(until: now) {
                if loops[key]?.setReady() == true { ready.append(key) }
            }
            var over: [Member] = []
            for key in ready {
                guard let turns = loops[key] else { continue }
                let isGoingOn = turns.turn()
                turns.arm(key, in: events, &owners)
                deadlines.set(key, isGoingOn ? turns.deadline : nil)
                guard !isGoingOn else { continue }
                loops[key] = nil
                over.append(turns.member)
            }
            let isLast = loops.isEmpty && endIfIdle()
            for member in over { member.isOver.withLock { $0 = true } }
            if isLast { return }
        }
    }

    /// Waits for descriptors, at most until a deadline.
    ///
    /// - Returns: The loops of the descriptors that were found, each once.
    private func wait(for loops: [UInt32: Turns], until deadline: Int64?) -> [UInt32] {
        // Rounded up, so that the time is over afterwards.
        let rest = deadline.map { max(0, ($0 - SystemTime.monotonicNanoseconds() + 999_999) / 1_000_000) }
        var ready: [UInt32] = []
        for event in events.wait(milliseconds: rest.map { Int32(clamping: $0) } ?? -1) {
            if event.key == Self.signalKey {
                // Before it takes the loops that have arrived.
                signal.clear()
                try? events.arm(PollEntry(signal.fileDescriptor), key: Self.signalKey)
            } else if loops[event.key]?.find(event) == true {
                ready.append(event.key)
            }
        }
        return ready
    }

    /// A key that no loop has.
    private static func nextKey(_ last: UInt32, _ loops: [UInt32: Turns]) -> UInt32 {
        var key = last
        repeat { key &+= 1 } while key == signalKey || loops[key] != nil
        return key
    }

    private func takeArrived() -> [(member: Member, make: @Sendable () -> any DrivenLoop)] {
        state.withLock { state in
            defer { state.arrived = [] }
            return state.arrived
        }
    }

    /// Returns whether the thread ends: no loop has arrived, and none will.
    private func endIfIdle() -> Bool {
        Self.current.withLock { current in
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

        let member: Member
        private let loop: any DrivenLoop
        /// The descriptors to wait for, or those of the last wait with what it found.
        private var pause = Pause.none
        /// Whether the next turn is due.
        private var isReady = false
        /// The descriptors that were armed.
        private var armed: Set<Int32> = []

        init(_ member: Member, _ loop: any DrivenLoop) { (self.member, self.loop) = (member, loop) }

        /// When the pause is over, by the monotonic clock in nanoseconds; nil for no limit.
        var deadline: Int64? {
            pause.milliseconds.map { SystemTime.monotonicNanoseconds() + max(0, $0) * 1_000_000 }
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

        /// Returns whether the loop goes on.
        func turn() -> Bool {
            isReady = false
            let next = loop.turn(pause.entries)
            pause = next ?? Pause([])
            return next != nil
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
