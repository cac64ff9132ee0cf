package import Platform
import Synchronization

/// Runs asynchronous functions on the thread that turns it, and waits for their descriptors together with that thread's own.
///
/// A dialog such as a login is so written as one function after the other, without a thread of its own:
///
/// ```swift
/// let loop = EventLoop { signal.raise() }
/// let task = Task(executorPreference: loop) { try await Connection.connect(host: host, port: port, deadline: deadline, on: loop) }
/// while !isDone {
///     loop.runJobs()
///     loop.poll(&own, milliseconds: -1)
/// }
/// ```
package final class EventLoop: TaskExecutor {
    /// A task that waits for descriptors.
    private struct Wait {
        let entries: [PollEntry]
        let deadline: Deadline
        let continuation: CheckedContinuation<Outcome, Never>
    }

    /// What ended a wait, and what was found.
    private struct Outcome: Sendable {
        let result: WaitResult
        let entries: [PollEntry]
    }

    private struct State {
        var jobs: [UnownedJob] = []
        var waits: [Int: Wait] = [:]
        /// Waits that were canceled before they began.
        var canceled: Set<Int> = []
        var lastWait = 0
    }

    private let state = Mutex(State())
    private let wake: @Sendable () -> Void

    /// - Parameter wake: Ends a ``poll(_:milliseconds:)`` that is under way; called on any thread.
    package init(wake: @escaping @Sendable () -> Void) { self.wake = wake }

    // MARK: Jobs

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        state.withLock { $0.jobs.append(job) }
        wake()
    }

    /// Whether tasks can go on without waiting.
    package var hasJobs: Bool { state.withLock { !$0.jobs.isEmpty } }

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

    private func cancel(_ number: Int) {
        let wait = state.withLock { state in
            let wait = state.waits.removeValue(forKey: number)
            if wait == nil { state.canceled.insert(number) }
            return wait
        }
        wait?.continuation.resume(returning: Outcome(result: .interrupted, entries: wait?.entries ?? []))
    }

    // MARK: Waiting, by the thread

    /// Waits until one of `own` is ready, a task can go on, or the time is over.
    ///
    /// - Parameters:
    ///   - own: What the thread itself waits for.
    ///   - milliseconds: How long at most; negative for ever.
    /// - Throws: The error of poll(2). The waits of tasks go on.
    package func poll(_ own: inout [PollEntry], milliseconds: Int32) throws(Errno) {
        let waits = state.withLock { $0.waits.sorted { $0.key < $1.key } }
        var entries = own + waits.flatMap(\.value.entries)
        try PollEntry.wait(&entries, milliseconds: limit(milliseconds, waits.map(\.value.deadline)))
        own = Array(entries[..<own.count])
        var first = own.count
        for (number, wait) in waits {
            let found = Array(entries[first..<first + wait.entries.count])
            first += wait.entries.count
            if found.contains(where: \.isReady) {
                end(number, Outcome(result: .ready, entries: found))
            } else if wait.deadline.isPassed {
                end(number, Outcome(result: .timedOut, entries: found))
            }
        }
    }

    private func limit(_ milliseconds: Int32, _ deadlines: [Deadline]) -> Int32 {
        if hasJobs { return 0 }
        return ([milliseconds] + deadlines.map(\.pollMilliseconds)).filter { $0 >= 0 }.min() ?? -1
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
            var own = [PollEntry(ending.signal.readEnd)]
            if let interrupt, !task.isCancelled { own.append(PollEntry(interrupt)) }
            _ = try? loop.poll(&own, milliseconds: -1)
            if own[0].isReady { ending.signal.clear() }
            if own.count > 1, own[1].isReady { task.cancel() }
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
