import Glibc

/// A thread that may block, outside Swift's cooperative pool, which may not.
package enum WorkerThread {
    private final class Body {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    /// Starts a thread that ends when `body` returns; nobody joins it.
    package static func start(_ body: @escaping @Sendable () -> Void) throws(HandlerError) {
        var thread = pthread_t()
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        // Enough for a handler and SQLite; the default of 8 MiB is only reserved, but a worker's limits count it.
        pthread_attr_setstacksize(&attributes, 1 << 20)
        defer { pthread_attr_destroy(&attributes) }
        let pointer = Unmanaged.passRetained(Body(body)).toOpaque()
        let code = pthread_create(
            &thread, &attributes,
            { pointer in
                Unmanaged<Body>.fromOpaque(pointer!).takeRetainedValue().run()
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
