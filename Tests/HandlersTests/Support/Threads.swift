import Glibc
import Handlers
import Synchronization
import Testing

/// A thread of its own, for work that blocks; tasks must not.
final class Thread: Sendable {
    private final class Work: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    private let thread: pthread_t

    init(_ body: @escaping @Sendable () -> Void) {
        var thread = pthread_t()
        let work = Unmanaged.passRetained(Work(body))
        let code = pthread_create(
            &thread, nil,
            { pointer in
                // Balanced with passRetained above; pthread_create passes the pointer on unchanged.
                Unmanaged<Work>.fromOpaque(pointer!).takeRetainedValue().body()
                return nil
            }, work.toOpaque())
        precondition(code == 0, "no thread could be started")
        self.thread = thread
    }

    /// Waits for the end. Either this or ``detach()`` is called, once.
    func join() { pthread_join(thread, nil) }

    /// Lets it end by itself.
    func detach() { pthread_detach(thread) }
}

/// Runs `body` on as many threads at once, without keeping a task's thread waiting for them.
func concurrently(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) async {
    await withTaskGroup(of: Void.self) { group in
        for index in 0..<count {
            group.addTask {
                let thread = Mutex<Thread?>(nil)
                await withCheckedContinuation { continuation in
                    thread.withLock {
                        $0 = Thread {
                            body(index)
                            continuation.resume()
                        }
                    }
                }
                thread.withLock { $0 }?.join()
            }
        }
    }
}

/// Holds a thread until another one opens it.
final class Gate: Sendable {
    private let isOpen = Atomic<Bool>(false)
    func open() { isOpen.store(true, ordering: .sequentiallyConsistent) }
    func wait() { while !isOpen.load(ordering: .sequentiallyConsistent) { sched_yield() } }
}

/// Holds threads until all have come.
final class Barrier: Sendable {
    private let missing: Atomic<Int>
    init(_ count: Int) { missing = Atomic(count) }
    func wait() {
        missing.subtract(1, ordering: .sequentiallyConsistent)
        while missing.load(ordering: .sequentiallyConsistent) > 0 { sched_yield() }
    }
}

/// Ends a test that would loop for ever.
final class Counter: Sendable {
    private let left: Atomic<Int>
    init(_ limit: Int) { left = Atomic(limit) }
    func count() throws(HandlerError) {
        guard left.subtract(1, ordering: .relaxed).newValue >= 0 else {
            throw HandlerError(.sql, "a loop did not end")
        }
    }
}
