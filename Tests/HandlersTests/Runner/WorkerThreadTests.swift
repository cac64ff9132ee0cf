import Glibc
import Synchronization
import TestThreads
import Testing

@testable import Handlers

@Suite(.ownThread, .timeLimit(.minutes(3))) struct WorkerThreadTests {
    /// What a thread holds, slow to go.
    private final class Held: Sendable {
        let life: Life
        init(_ life: Life) { self.life = life }
        deinit {
            usleep(20_000)
            life.isOver.store(true, ordering: .sequentiallyConsistent)
        }
    }

    private final class Life: Sendable {
        let isOver = Atomic(false)
        let thread = Mutex<WorkerThread?>(nil)
    }

    @Test("H14 a joiner of a thread goes on when all that it held is gone")
    func joining() throws {
        let life = Life()
        func start() throws -> WorkerThread {
            let held = Held(life)
            return try WorkerThread("joined") { withExtendedLifetime(held) { _ = usleep(20_000) } }
        }
        let thread = try start()
        thread.join()
        let isOver = life.isOver.load(ordering: .sequentiallyConsistent)
        #expect(isOver)
        // There is nobody to wait for any more.
        thread.join()
    }

    @Test("H14 a thread that is to wait for itself goes on")
    func joiningItself() throws {
        let life = Life()
        // Held until the thread is known to it.
        try life.thread.withLock { thread in
            thread = try WorkerThread("itself") {
                life.thread.withLock { $0 }?.join()
                life.isOver.store(true, ordering: .sequentiallyConsistent)
            }
        }
        while !life.isOver.load(ordering: .sequentiallyConsistent) { usleep(100) }
    }
}
