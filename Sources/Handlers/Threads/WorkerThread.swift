import CWaits
import Glibc
import Synchronization

/// A thread that may block, outside Swift's cooperative pool, which may not.
///
/// Whoever lets go of this object lets the thread go on; whoever must know that it has ended joins it. A program that
/// calls `exit` while a thread of a library still frees what it used may abort there, so whatever is closed joins its
/// threads.
package final class WorkerThread: Sendable {
    private final class Body {
        let name: String
        let blocksSignals: Bool
        let run: @Sendable () -> Void

        init(_ name: String, _ blocksSignals: Bool, _ run: @escaping @Sendable () -> Void) {
            self.name = name
            self.blocksSignals = blocksSignals
            self.run = run
        }

        func begin() {
            dh_name_thread(name)
            guard blocksSignals else { return }
            var all = sigset_t()
            sigfillset(&all)
            pthread_sigmask(SIG_SETMASK, &all, nil)
        }
    }

    private let thread: Mutex<pthread_t?>

    /// Starts a thread that ends when `body` returns.
    ///
    /// - Parameters:
    ///   - name: What debuggers and the system show for the thread; at most 15 bytes.
    ///   - blocksSignals: Whether the application's signal handlers never run on it: for one that only waits.
    /// - Throws: ``HandlerError`` `resourcesExhausted`.
    package init(
        _ name: String, blocksSignals: Bool = false, _ body: @escaping @Sendable () -> Void
    ) throws(HandlerError) {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        // Enough for a handler and SQLite; the default of 8 MiB is only reserved, but a worker's limits count it.
        pthread_attr_setstacksize(&attributes, 1 << 20)
        defer { pthread_attr_destroy(&attributes) }
        let pointer = Unmanaged.passRetained(Body(name, blocksSignals, body)).toOpaque()
        var started = pthread_t()
        let code = pthread_create(
            &started, &attributes,
            { pointer in
                // Balanced with passRetained above; pthread_create passes the pointer on unchanged.
                let body = Unmanaged<Body>.fromOpaque(pointer!).takeRetainedValue()
                body.begin()
                body.run()
                return nil
            }, pointer)
        guard code == 0 else {
            Unmanaged<Body>.fromOpaque(pointer).release()
            throw HandlerError(
                .resourcesExhausted,
                "no thread could be started (\(String(cString: strerror(code)))); raise the process's limits")
        }
        thread = Mutex(started)
    }

    deinit {
        if let thread = thread.withLock({ $0.take() }) { pthread_detach(thread) }
    }

    /// Waits for the thread's end, with everything that ends with it; on the thread itself it only lets go of it.
    package func join() {
        guard let thread = thread.withLock({ $0.take() }) else { return }
        if pthread_equal(thread, pthread_self()) != 0 {
            pthread_detach(thread)
        } else {
            pthread_join(thread, nil)
        }
    }
}
