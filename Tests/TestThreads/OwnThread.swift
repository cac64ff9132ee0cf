import Glibc
public import Testing

/// Runs each test of a suite on threads of its own.
///
/// A test that blocks on a database, a process or a server's start would hold one of the few threads that all tasks of
/// the process share, and tests elsewhere that wait for the network would wait for it.
///
///     @Suite(.ownThread) struct KillTests { … }
public struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    public var isRecursive: Bool { true }

    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(ThreadExecutor()) { try await function() }
    }
}

extension Trait where Self == OwnThread {
    public static var ownThread: OwnThread { OwnThread() }
}

/// Runs every part of a task between two suspensions on a new thread.
private final class ThreadExecutor: TaskExecutor {
    private final class Part {
        let job: UnownedJob
        let executor: UnownedTaskExecutor

        init(_ job: UnownedJob, _ executor: UnownedTaskExecutor) {
            self.job = job
            self.executor = executor
        }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let part = Unmanaged.passRetained(Part(UnownedJob(job), asUnownedTaskExecutor()))
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        var thread = pthread_t()
        let failure = pthread_create(
            &thread, &attributes,
            { argument in
                // pthread_create hands over the pointer that was retained above; it is never nil.
                let part = Unmanaged<Part>.fromOpaque(argument!).takeRetainedValue()
                part.job.runSynchronously(on: part.executor)
                return nil
            }, part.toOpaque())
        precondition(failure == 0, "no thread for a test: \(String(cString: strerror(failure)))")
    }
}
