import Glibc
import Synchronization

/// A thread that sleeps in the kernel most of the time, and that somebody waits for in the end.
final class WaitingThread: Sendable {
    private final class Work {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    private let thread: Mutex<pthread_t?>

    init(_ body: @escaping @Sendable () -> Void) throws(HandlerError) {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        // Enough for a callback's SQL; the default of 8 MiB is only reserved, but a small worker's limits count it.
        pthread_attr_setstacksize(&attributes, 1 << 19)
        defer { pthread_attr_destroy(&attributes) }
        let pointer = Unmanaged.passRetained(Work(body)).toOpaque()
        var started = pthread_t()
        let code = pthread_create(
            &started, &attributes,
            { pointer in
                // The application's signal handlers run on the application's own threads.
                var all = sigset_t()
                sigfillset(&all)
                pthread_sigmask(SIG_SETMASK, &all, nil)
                // Balanced with passRetained above; pthread_create passes the pointer on unchanged.
                Unmanaged<Work>.fromOpaque(pointer!).takeRetainedValue().body()
                return nil
            }, pointer)
        guard code == 0 else {
            Unmanaged<Work>.fromOpaque(pointer).release()
            throw SeatFileErrors.noThread(code)
        }
        thread = Mutex(started)
    }

    /// Waits for the end of the body, once; on the thread itself it only lets go of it.
    func join() {
        guard let thread = thread.withLock({ $0.take() }) else { return }
        if pthread_equal(thread, pthread_self()) != 0 {
            pthread_detach(thread)
        } else {
            pthread_join(thread, nil)
        }
    }
}
