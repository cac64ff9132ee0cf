import CWaits
import Glibc

/// A thread that may block, outside Swift's cooperative pool, which may not.
package enum WorkerThread {
    private final class Body {
        let name: String
        let run: @Sendable () -> Void
        init(_ name: String, _ run: @escaping @Sendable () -> Void) {
            self.name = name
            self.run = run
        }
    }

    /// Starts a thread that ends when `body` returns; nobody joins it.
    ///
    /// - Parameter name: What debuggers and the system show for the thread; at most 15 bytes.
    package static func start(_ name: String, _ body: @escaping @Sendable () -> Void) throws(HandlerError) {
        var thread = pthread_t()
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        // Enough for a handler and SQLite; the default of 8 MiB is only reserved, but a worker's limits count it.
        pthread_attr_setstacksize(&attributes, 1 << 20)
        defer { pthread_attr_destroy(&attributes) }
        let pointer = Unmanaged.passRetained(Body(name, body)).toOpaque()
        let code = pthread_create(
            &thread, &attributes,
            { pointer in
                let body = Unmanaged<Body>.fromOpaque(pointer!).takeRetainedValue()
                dh_name_thread(body.name)
                body.run()
                return nil
            }, pointer)
        guard code == 0 else {
            Unmanaged<Body>.fromOpaque(pointer).release()
            throw HandlerError(
                .resourcesExhausted,
                "no thread could be started (\(String(cString: strerror(code)))); raise the process's limits")
        }
    }
}
