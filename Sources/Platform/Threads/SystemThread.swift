import CPlatform
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A thread of the system, outside Swift's cooperative pool: it may block.
///
/// It runs on when the last reference to this object goes.
package final class SystemThread: Sendable {
    private final class Body {
        let name: String
        let run: @Sendable () -> Void

        init(_ name: String, _ run: @escaping @Sendable () -> Void) {
            self.name = name
            self.run = run
        }
    }

    package let id: ThreadID
    private let thread: Mutex<pthread_t?>

    /// Enough for a handler and SQLite, in bytes; the default of 8 MiB is only reserved, but a worker's limits count it.
    package static let stack = 1 << 20

    /// Starts a thread that ends when `body` returns.
    ///
    /// - Parameters:
    ///   - name: What debuggers and the system show for the thread; at most 15 bytes.
    ///   - blocksSignals: Whether the application's signal handlers never run on it: for one that only waits.
    ///   - stack: The size of its stack in bytes.
    package init(
        _ name: String, blocksSignals: Bool = false, stack: Int = SystemThread.stack,
        _ body: @escaping @Sendable () -> Void
    ) throws(Errno) {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        pthread_attr_setstacksize(&attributes, stack)
        defer { pthread_attr_destroy(&attributes) }
        let pointer = Unmanaged.passRetained(Body(name, body)).toOpaque()
        #if canImport(Darwin)
            var started: pthread_t?
        #else
            var started = pthread_t()
        #endif
        // The thread inherits the mask, so that not even its first moment can run a handler.
        let earlier = blocksSignals ? Self.blockSignals() : nil
        let code = pthread_create(
            &started, &attributes,
            { pointer in
                // It is optional on Linux alone.
                let pointer: UnsafeMutableRawPointer? = pointer
                // Balanced with passRetained above; pthread_create passes the pointer on unchanged.
                let body = Unmanaged<Body>.fromOpaque(pointer!).takeRetainedValue()
                dh_name_thread(body.name)
                body.run()
                return nil
            }, pointer)
        if var earlier { pthread_sigmask(SIG_SETMASK, &earlier, nil) }
        guard code == 0 else {
            Unmanaged<Body>.fromOpaque(pointer).release()
            throw Errno(rawValue: code)
        }
        id = ThreadID(started)
        thread = Mutex(started)
    }

    /// - Returns: The calling thread's mask before.
    private static func blockSignals() -> sigset_t {
        var (all, earlier) = (sigset_t(), sigset_t())
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &earlier)
        return earlier
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

/// Distinguishes a running thread from all others.
package struct ThreadID: Hashable, Sendable {
    /// Never 0.
    package let number: UInt

    /// The calling thread's.
    package static var current: ThreadID { ThreadID(pthread_self()) }

    fileprivate init(_ thread: pthread_t?) {
        #if canImport(Darwin)
            number = UInt(bitPattern: thread)
        #else
            number = thread ?? 0
        #endif
    }
}
