package import Platform
import Synchronization

/// Runs asynchronous functions on the thread that turns it, and waits for their descriptors together with that thread's own.
///
/// A dialog such as a login is so written as one function after the other, without a thread of its own:
///
/// ```swift
/// let loop = EventLoop { signal.raise() }
/// let task = Task(executorPreference: loop) { await loop.sleep(.seconds(5)) }
/// while !isDone {
///     loop.runJobs()
///     var pause = Pause([])
///     loop.extend(&pause)
///     pause.wait()
///     loop.resume(pause.entries)
/// }
/// ```
package final class EventLoop: TaskExecutor {
    /// A task that waits for descriptors.
    private struct Wait {
        let entries: [PollEntry]
        let deadline: Deadline
        let continuation: CheckedContinuation<Outcome, Never>
    }

    /// The result of a wait, with the descriptors.
    private struct Outcome: Sendable {
        let result: WaitResult
        let entries: [PollEntry]
    }

    private struct State {
        var jobs: [UnownedJob] = []
        var waits: [Int: Wait] = [:]
        /// Waits that were canceled before they started.
        var canceled: Set<Int> = []
        var lastWait = 0
        /// The waits of the last ``EventLoop/extend(_:)`` in the order of their descriptors, with their numbers of descriptors.
        var paused: [(wait: Int, count: Int)] = []
    }

    private let state = Mutex(State())
    private let wake: @Sendable () -> Void
    /// The clock of the deadlines, in nanoseconds.
    private let clock: @Sendable () -> Int64

    /// - Parameters:
    ///   - clock: The clock of the deadlines, in nanoseconds.
    ///   - wake: Ends the pause of the thread; called on any thread.
    package init(
        clock: @escaping @Sendable () -> Int64 = SystemTime.monotonicNanoseconds,
        wake: @escaping @Sendable () -> Void
    ) {
        self.clock = clock
        self.wake = wake
    }

    // MARK: Time

    /// Returns the instant `duration` from now.
    package func deadline(after duration: Duration) -> Deadline { Deadline(duration, after: clock()) }

    /// Returns the time until a deadline; zero after it.
    package func remaining(until deadline: Deadline) -> Duration { deadline.remaining(at: clock()) }

    /// Returns whether a deadline has passed.
    package func isPassed(_ deadline: Deadline) -> Bool { deadline.isPassed(at: clock()) }

    // MARK: Jobs

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        state.withLock { $0.jobs.append(job) }
        wake()
    }

    /// Whether no task runs, can go on or waits for descriptors.
    package var isIdle: Bool { state.withLock { $0.jobs.isEmpty && $0.waits.isEmpty } }

    /// Runs tasks until all of them wait.
    package func runJobs() {
        while true {
            let jobs = state.withLock { state in
                defer { state.jobs.removeAll(keepingCapacity: true) }
                return state.jobs
            }
            if jobs.isEmpty { return }
            for job in jobs { job.runSynchronously(on: asUnownedTaskExecutor()) }
        }
    }

    // MARK: Waiting, by tasks

    /// Waits until one of `entries` is ready, the deadline passes or the task is canceled.
    package func wait(_ entries: inout [PollEntry], until deadline: Deadline) async -> WaitResult {
        let number = state.withLock { state in
            state.lastWait += 1
            return state.lastWait
        }
        let asked = entries
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isCanceled = state.withLock { state in
                    if state.canceled.remove(number) != nil { return true }
                    state.waits[number] = Wait(entries: asked, deadline: deadline, continuation: continuation)
                    return false
                }
                if isCanceled {
                    continuation.resume(returning: Outcome(result: .interrupted, entries: asked))
                }
            }
        } onCancel: {
            cancel(number)
        }
        state.withLock { _ = $0.canceled.remove(number) }
        entries = outcome.entries
        return outcome.result
    }

    /// Waits for `duration`, or until the task is canceled.
    package func sleep(_ duration: Duration) async {
        var none: [PollEntry] = []
        _ = await wait(&none, until: deadline(after: duration))
    }

    private func cancel(_ number: Int) {
        let wait = state.withLock { state in
            let wait = state.waits.removeValue(forKey: number)
            if wait == nil { state.canceled.insert(number) }
            return wait
        }
        wait?.continuation.resume(returning: Outcome(result: .interrupted, entries: wait?.entries ?? []))
    }

    // MARK: Waiting, by the thread

    /// Adds the descriptors and the first deadline of all waits to a pause of the thread.
    package func extend(_ pause: inout Pause) {
        let now = clock()
        state.withLock { state in
            let waits = state.waits.sorted { $0.key < $1.key }
            state.paused = waits.map { ($0.key, $0.value.entries.count) }
            for (_, wait) in waits {
                pause.entries += wait.entries
                pause.limit(to: wait.deadline.milliseconds(at: now))
            }
            if !state.jobs.isEmpty { pause.limit(to: 0) }
        }
    }

    /// Resumes the tasks whose descriptors are ready or whose deadline has passed.
    ///
    /// - Parameter found: The descriptors that the last ``extend(_:)`` added, after the pause.
    package func resume(_ found: some Collection<PollEntry>) {
        var rest = found[...]
        let now = clock()
        let paused = state.withLock { state in
            defer { state.paused = [] }
            return state.paused.map { ($0.wait, $0.count, state.waits[$0.wait]?.deadline) }
        }
        for (number, count, deadline) in paused {
            let entries = Array(rest.prefix(count))
            rest = rest.dropFirst(count)
            // The wait was canceled during the pause.
            guard let deadline else { continue }
            if entries.contains(where: \.isReady) {
                end(number, Outcome(result: .ready, entries: entries))
            } else if deadline.isPassed(at: now) {
                end(number, Outcome(result: .timedOut, entries: entries))
            }
        }
    }

    private func end(_ number: Int, _ outcome: Outcome) {
        let wait = state.withLock { $0.waits.removeValue(forKey: number) }
        wait?.continuation.resume(returning: outcome)
    }

    // MARK: A thread without a loop of its own

    /// Runs `body` to its end on this thread, which waits for it: for threads that have nothing else to do.
    ///
    /// - Parameter interrupt: A descriptor that becomes readable when `body` is to be canceled. It is not read.
    package static func run<Value>(
        interrupt: Int32? = nil, _ body: @escaping @Sendable (EventLoop) async throws -> sending Value
    ) throws -> Value {
        let ending = try Ending<Value>()
        let loop = EventLoop { ending.signal.raise() }
        let task = Task(executorPreference: loop) {
            do {
                ending.end(.success(try await body(loop)))
            } catch {
                ending.end(.failure(error))
            }
        }
        while true {
            loop.runJobs()
            if let result = ending.result { return try result.get() }
            // poll(2) passes over a negative descriptor.
            var pause = Pause([
                PollEntry(ending.signal.readEnd), PollEntry(task.isCancelled ? -1 : interrupt ?? -1),
            ])
            loop.extend(&pause)
            pause.wait()
            if pause.entries[0].isReady { ending.signal.clear() }
            if pause.entries[1].isReady { task.cancel() }
            loop.resume(pause.entries[2...])
        }
    }

    /// The result of a task, and what wakes the thread that waits for it.
    ///
    /// `@unchecked Sendable`: the task writes the result once, on the thread that reads it afterwards.
    private final class Ending<Value>: @unchecked Sendable {
        let signal: WakePipe
        private(set) var result: Result<Value, any Error>?

        init() throws(TransportError) {
            do throws(Errno) { signal = try WakePipe() } catch { throw Socket.creationFailure(error) }
        }

        func end(_ result: Result<Value, any Error>) { self.result = result }
    }
}
