import Glibc

/// A thread that may block, outside Swift's cooperative pool, which may not.
package enum WorkerThread {
    private final class Body {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    /// Starts a thread that ends when `body` returns; nobody joins it.
    package static func start(_ body: @escaping @Sendable () -> Void) throws(AccountError) {
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
            throw AccountError(
                .invalidConfiguration,
                "no thread could be started (\(String(cString: strerror(code)))); raise the process's limits")
        }
    }
}

/// A pipe that wakes a thread out of poll(2).
final class WakeSignal: Sendable {
    /// Readable while the signal is raised.
    let fileDescriptor: Int32
    private let writeEnd: Int32

    init() throws(AccountError) {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else {
            throw AccountError(
                .invalidConfiguration,
                "no pipe could be made (\(String(cString: strerror(errno)))); raise the process's limit of open files"
            )
        }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        fileDescriptor = ends[0]
        writeEnd = ends[1]
    }

    deinit {
        close(fileDescriptor)
        close(writeEnd)
    }

    /// A full pipe is raised already.
    func raise() {
        var byte: UInt8 = 1
        _ = write(writeEnd, &byte, 1)
    }

    func clear() {
        withUnsafeTemporaryAllocation(byteCount: 256, alignment: 1) { buffer in
            while read(fileDescriptor, buffer.baseAddress, buffer.count) == buffer.count {}
        }
    }
}
