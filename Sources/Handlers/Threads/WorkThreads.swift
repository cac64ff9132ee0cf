import Platform
import Synchronization

/// Threads that call turns which may take long: those of one place one after the other, those of several places at the same time.
///
/// ```text
///   shared thread:  wait ──╮   ╭──▶ thread:  turns of one store ─────▶ COMMIT ──╮
///   shared thread:  wait ──┼──▶┤                                                ├──▶ wait
///   shared thread:  wait ──╯   ╰──▶ thread:  turns of another store ─▶ COMMIT ──╯
/// ```
/// While a place is busy, its turns wait, and then have their steps together; see ``GroupedLoop``. So a handler that sleeps in a step
/// holds up the accounts of its store and no others, until as many stores sleep as there may be threads.
package final class WorkThreads: Sendable {
    private struct Entry {
        let turn: Turn
        let worker: Worker
        let finish: @Sendable () -> Void
    }

    /// The thread that calls a turn of a loop.
    final class Worker: Sendable {
        private let number = Atomic<UInt>(0)

        /// Whether the calling thread does.
        var isCurrent: Bool { number.load(ordering: .relaxed) == ThreadID.current.number }

        fileprivate func start() { number.store(ThreadID.current.number, ordering: .relaxed) }
        fileprivate func end() { number.store(0, ordering: .relaxed) }
    }

    private struct State {
        /// Turns that no thread has started, by their place.
        var waiting: [ObjectIdentifier: ArraySlice<Entry>] = [:]
        /// Places with such turns that no thread is in, the longest wait first.
        var places: ArraySlice<ObjectIdentifier> = []
        /// Places that a thread is in.
        var busy: Set<ObjectIdentifier> = []
        /// Threads without a turn, each of which wakes by its own monitor; the last one was busy last.
        var idle: [Monitor<Bool>] = []
        var threads = 0
    }

    /// The time after which a thread without a turn ends.
    private static let longestIdle = Duration.seconds(1)

    /// Whether turns are called here, and not by the threads that wait: as soon as they belong to several places.
    package var isNeeded: Bool {
        get { needed.load(ordering: .relaxed) }
        set { needed.store(newValue, ordering: .relaxed) }
    }

    private let needed = Atomic(false)

    private let limit: Int
    private let name: String
    private let stack: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - limit: The number of places in which turns are called at the same time, from 1.
    ///   - name: What debuggers and the system show for a thread; at most 15 bytes.
    ///   - stack: The size of the stack of a thread in bytes.
    package init(_ limit: Int, _ name: String, stack: Int = SystemThread.stack) {
        (self.limit, self.name, self.stack) = (limit, name, stack)
    }

    /// Has a long computation run.
    package func start(_ body: @escaping @Sendable () -> Void) {
        if !tryStart(body) { body() }
    }

    /// Has a long computation run, unless the system gives no thread for it and none is there.
    ///
    /// - Returns: Whether it runs.
    func tryStart(_ body: @escaping @Sendable () -> Void) -> Bool {
        let loop = Computation(body)
        let place = ObjectIdentifier(loop)
        if added(Entry(turn: Turn(loop, []), worker: Worker(), finish: {}), in: place) { return true }
        // Until then its place is no one else's.
        return withExtendedLifetime(loop) {
            state.withLock { state in
                state.places.removeAll { $0 == place }
                // A thread that started meanwhile may have taken it.
                return state.waiting.removeValue(forKey: place) == nil
            }
        }
    }

    /// A loop of one turn.
    private final class Computation: DrivenLoop {
        private let body: () -> Void

        init(_ body: @escaping () -> Void) { self.body = body }

        func turn(_ found: [PollEntry]) -> Pause? {
            body()
            return nil
        }
    }

    /// Adds a turn; a thread starts if none is idle.
    ///
    /// - Parameters:
    ///   - turn: The turn. Nothing touches it until it is finished.
    ///   - worker: Knows the thread meanwhile.
    ///   - finish: Called on that thread after the turn.
    func add(
        _ turn: Turn, in place: ObjectIdentifier, worker: Worker = Worker(),
        finish: @escaping @Sendable () -> Void
    ) {
        let entry = Entry(turn: turn, worker: worker, finish: finish)
        // The others do it, or, without any, this one.
        if !added(entry, in: place) { _ = doNext(orRest: nil) }
    }

    /// Adds a turn.
    ///
    /// - Returns: False when the system gives no thread and none is there that could call it.
    private func added(_ entry: Entry, in place: ObjectIdentifier) -> Bool {
        let (idle, isThreadNeeded) = state.withLock { state -> (Monitor<Bool>?, Bool) in
            let isFirst = state.waiting[place] == nil
            state.waiting[place, default: []].append(entry)
            // The thread that is in the place sees it when it leaves.
            guard isFirst, !state.busy.contains(place) else { return (nil, false) }
            state.places.append(place)
            if let idle = state.idle.popLast() { return (idle, false) }
            guard state.threads < limit else { return (nil, false) }
            state.threads += 1
            return (nil, true)
        }
        idle?.withLock { $0 = true }
        guard isThreadNeeded else { return true }
        do {
            _ = try WorkerThread(name, stack: stack) { [self] in run() }
            return true
        } catch {
            return state.withLock { state in
                state.threads -= 1
                return state.threads > 0
            }
        }
    }

    /// Runs until nothing has been added for a while.
    private func run() {
        let wake = Monitor(false)
        while doNext(orRest: wake) || rest(wake) {}
    }

    /// Calls the turns of the place that has waited longest: as many as belong together.
    ///
    /// - Parameter wake: The thread's monitor if it rests when there is nothing to do.
    /// - Returns: Whether there was something to do.
    private func doNext(orRest wake: Monitor<Bool>?) -> Bool {
        let next = state.withLock { state -> (place: ObjectIdentifier, entries: ArraySlice<Entry>)? in
            guard let place = state.places.popFirst() else {
                if let wake { state.idle.append(wake) }
                return nil
            }
            state.busy.insert(place)
            return (place, state.waiting.removeValue(forKey: place) ?? [])
        }
        guard let (place, entries) = next else { return false }
        for entry in entries { entry.worker.start() }
        let count = Turn.run(entries.map(\.turn)[...])
        for entry in entries { entry.worker.end() }
        for entry in entries.prefix(count) { entry.finish() }
        state.withLock { state in
            state.busy.remove(place)
            let rest = entries.dropFirst(count) + (state.waiting[place] ?? [])
            state.waiting[place] = rest.isEmpty ? nil : rest
            if !rest.isEmpty { state.places.append(place) }
        }
        return true
    }

    /// Waits for something to do.
    ///
    /// - Returns: False when the thread ends.
    private func rest(_ wake: Monitor<Bool>) -> Bool {
        let isWoken = wake.wait(limit: Self.longestIdle) { $0 ? true : nil } ?? false
        wake.withLock { $0 = false }
        return state.withLock { state in
            // Not there: it was chosen to work, perhaps at this moment.
            guard let index = state.idle.firstIndex(where: { $0 === wake }) else { return true }
            state.idle.remove(at: index)
            if !isWoken { state.threads -= 1 }
            return isWoken
        }
    }
}
