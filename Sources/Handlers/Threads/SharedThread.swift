import Platform
import Synchronization

/// The thread of this process that calls the turns of all loops that never work for long.
///
/// It starts with the first of these loops and ends with the last one, so any number of stores costs one thread, and closed
/// stores leave none.
final class SharedThread: Sendable {
    /// The thread that takes new loops.
    private static let current = Mutex<SharedThread?>(nil)

    private struct State {
        var arrived: [(member: Member, make: @Sendable () -> any DrivenLoop)] = []
        var hasEnded = false
    }

    private let state = Mutex(State())
    private let signal: WakeSignal
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

    private init() throws(HandlerError) { signal = try WakeSignal() }

    private func run() {
        number.store(ThreadID.current.number, ordering: .relaxed)
        var running: [Turns] = []
        while true {
            // First: a loop that arrives from here on ends the next pause.
            signal.clear()
            running += takeArrived()
            let over = running.filter { !$0.turnIfReady() }.map(\.member)
            running.removeAll(where: \.isOver)
            let isLast = running.isEmpty && endIfIdle()
            for member in over { member.isOver.withLock { $0 = true } }
            if isLast { return }
            pause(running)
        }
    }

    private func takeArrived() -> [Turns] {
        let arrived = state.withLock { state in
            defer { state.arrived = [] }
            return state.arrived
        }
        return arrived.map { Turns($0.member, $0.make()) }
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

    /// Waits for the descriptors and deadlines of all loops at once.
    private func pause(_ running: [Turns]) {
        var all = Pause([PollEntry(signal.fileDescriptor)])
        for turns in running {
            all.entries += turns.pause.entries
            all.limit(to: turns.milliseconds)
        }
        all.wait()
        var rest = all.entries.dropFirst()
        for turns in running {
            let count = turns.pause.entries.count
            turns.pause.entries = Array(rest.prefix(count))
            rest = rest.dropFirst(count)
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
        let member: Member
        /// The descriptors to wait for, or those of the last wait with what it found.
        var pause = Pause.none
        private let loop: any DrivenLoop
        /// When the pause is over, by the monotonic clock in nanoseconds; nil for no limit.
        private var deadline: Int64?
        private(set) var isOver = false

        init(_ member: Member, _ loop: any DrivenLoop) {
            (self.member, self.loop) = (member, loop)
            deadline = 0
        }

        /// The rest of the pause, rounded up so that it is over afterwards.
        var milliseconds: Int64? {
            deadline.map { max(0, ($0 - SystemTime.monotonicNanoseconds() + 999_999) / 1_000_000) }
        }

        /// Returns whether the loop goes on.
        func turnIfReady() -> Bool {
            guard pause.entries.contains(where: \.isReady) || milliseconds == 0 else { return true }
            guard let next = loop.turn(pause.entries) else {
                isOver = true
                return false
            }
            pause = next
            deadline = next.milliseconds.map { SystemTime.monotonicNanoseconds() + max(0, $0) * 1_000_000 }
            return true
        }
    }
}
