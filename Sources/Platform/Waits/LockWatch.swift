import CPlatform
import Glibc
import Synchronization

/// Waits until the lock of a byte of a file is free, on a thread that sleeps in the kernel until then.
package final class LockWatch: Sendable {
    private final class Work: Sendable {
        let ended: @Sendable () -> Void
        init(_ ended: @escaping @Sendable () -> Void) { self.ended = ended }
    }

    private let work: Work
    /// Open until the wait is over.
    private let file: OpenFile
    private let thread: Mutex<pthread_t?>

    /// - Parameters:
    ///   - byte: The byte that another open file description has locked for writing.
    ///   - ended: Called once, on the waiting thread.
    package init(_ file: OpenFile, byte: Int64, ended: @escaping @Sendable () -> Void) throws(Errno) {
        work = Work(ended)
        self.file = file
        thread = Mutex(nil)
        let code = thread.withLock { thread in
            // The work lives as long as this object, which does not go before its thread is through.
            var started = pthread_t()
            let code = dh_lock_wait_start(
                &started, file.descriptor, byte,
                { pointer, _ in
                    // An error (the file system gives no more locks) is reported like an end: the callback looks for itself.
                    let work = Unmanaged<Work>.fromOpaque(pointer!).takeUnretainedValue()
                    withExtendedLifetime(work) { work.ended() }
                }, Unmanaged.passUnretained(work).toOpaque())
            thread = code == 0 ? started : nil
            return code
        }
        guard code == 0 else { throw Errno(rawValue: code) }
    }

    deinit { cancel() }

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
