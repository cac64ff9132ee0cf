import CPlatform
import Glibc
import Synchronization

/// A thread of the system, outside Swift's cooperative pool: it may block.
///
/// It runs on when the last reference to this object goes.
package final class SystemThread: Sendable {
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
    package init(
        _ name: String, blocksSignals: Bool = false, _ body: @escaping @Sendable () -> Void
    ) throws(Errno) {
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
            throw Errno(rawValue: code)
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

    /// Lets the calling thread sleep.
    package static func sleep(microseconds: UInt32) { usleep(microseconds) }
}

/// Tells a thread that runs from all others that run.
package struct ThreadID: Hashable, Sendable {
    /// Never 0.
    package let number: UInt

    /// The calling thread's.
    package static var current: ThreadID { ThreadID(number: UInt(pthread_self())) }
}
