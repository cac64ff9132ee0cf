import Handlers
import Testing

/// Runs each test of a suite on threads of its own.
///
/// A test that blocks while it waits for a child process would hold one of the few threads that all tasks of the process
/// share, and tests elsewhere would wait for it.
struct OwnThread: SuiteTrait, TestTrait, TestScoping {
    var isRecursive: Bool { true }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        try await withTaskExecutorPreference(ThreadExecutor()) { try await function() }
    }
}

extension Trait where Self == OwnThread {
    static var ownThread: OwnThread { OwnThread() }
}

/// Runs every part of a task between two suspensions on a new thread.
private final class ThreadExecutor: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        do {
            try WorkerThread.start { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        } catch {
            // Without threads no test can run.
            fatalError("\(error)")
        }
    }
}
