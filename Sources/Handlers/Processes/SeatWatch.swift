import CWaits
import Glibc
import Synchronization

/// Waits for the end of one holder of a seat, on a thread that is asleep in the kernel until then.
package final class SeatWatch: Sendable {
    private final class Work: Sendable {
        let ended: @Sendable () -> Void
        init(_ ended: @escaping @Sendable () -> Void) { self.ended = ended }
    }

    private let work: Work
    private let descriptor: Int32
    private let thread: Mutex<pthread_t?>

    init(_ file: SeatFile, life: Int64, ended: @escaping @Sendable () -> Void) throws(HandlerError) {
        work = Work(ended)
        // Its own number, for the store may close while this waits.
        descriptor = fcntl(file.descriptor, F_DUPFD_CLOEXEC, 3)
        guard descriptor >= 0 else { throw SeatFileErrors.noThread(errno) }
        thread = Mutex(nil)
        let code = thread.withLock { thread in
            // The work lives as long as this object, which does not go before its thread is through.
            var started = pthread_t()
            let code = dh_lock_wait_start(
                &started, descriptor, life,
                { pointer, _ in
                    // An error (the file system gives no more locks) is told like an end: whoever looks sees for itself.
                    let work = Unmanaged<Work>.fromOpaque(pointer!).takeUnretainedValue()
                    withExtendedLifetime(work) { work.ended() }
                }, Unmanaged.passUnretained(work).toOpaque())
            thread = code == 0 ? started : nil
            return code
        }
        guard code == 0 else { throw SeatFileErrors.noThread(code) }
    }

    deinit {
        cancel()
        close(descriptor)
    }

    /// Ends the wait. When this returns, the callback has run to its end or never will run, unless it is the callback
    /// itself that calls this.
    package func cancel() {
        guard let thread = thread.withLock({ $0.take() }) else { return }
        if pthread_equal(thread, pthread_self()) != 0 {
            pthread_detach(thread)
        } else {
            dh_lock_wait_join(thread)
        }
    }
}
