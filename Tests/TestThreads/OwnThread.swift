import Synchronization
public import Testing

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Runs each test of a suite on threads of its own.
///
/// A test that blocks on a database, a process or a server's start would hold one of the few threads that all tasks of
/// the process share, and tests elsewhere that wait for the network would wait for it. Every suite has this trait, so the
/// time of every test is recorded (``TestTimes``).
///
///     @Suite(.ownThread) struct KillTests { … }
public struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    public var isRecursive: Bool { true }

    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        let executor = ThreadExecutor()
        let start = ContinuousClock.now
        try await withTaskExecutorPreference(executor) {
            defer { TestTimes.record(test, start: start, processor: executor.processorTime) }
            try await function()
        }
    }
}

extension Trait where Self == OwnThread {
    public static var ownThread: OwnThread { OwnThread() }
}

/// Runs every part of a task between two suspensions on a new thread.
private final class ThreadExecutor: TaskExecutor {
    /// Processor time of the parts that have returned.
    private let nanoseconds = Atomic<Int64>(0)

    /// Processor time of all parts up to the calling one, without other threads and processes that they start.
    var processorTime: Duration {
        .nanoseconds(nanoseconds.load(ordering: .relaxed) + Self.nanosecondsOfThread)
    }

    private final class Part {
        let job: UnownedJob
        let executor: ThreadExecutor

        init(_ job: UnownedJob, _ executor: ThreadExecutor) {
            self.job = job
            self.executor = executor
        }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let part = Unmanaged.passRetained(Part(UnownedJob(job), self))
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        #if canImport(Darwin)
            var thread: pthread_t?
        #else
            var thread = pthread_t()
        #endif
        let failure = pthread_create(
            &thread, &attributes,
            { argument in
                // It is optional on Linux alone.
                let argument: UnsafeMutableRawPointer? = argument
                // pthread_create hands over the pointer that was retained above; it is never nil.
                let part = Unmanaged<Part>.fromOpaque(argument!).takeRetainedValue()
                part.job.runSynchronously(on: part.executor.asUnownedTaskExecutor())
                part.executor.nanoseconds.add(ThreadExecutor.nanosecondsOfThread, ordering: .relaxed)
                return nil
            }, part.toOpaque())
        precondition(failure == 0, "no thread for a test: \(String(cString: strerror(failure)))")
    }

    private static var nanosecondsOfThread: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
