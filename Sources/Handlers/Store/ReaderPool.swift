import Glibc

/// The connections of a store that only read: opened when first needed, each lent to one read at a time.
///
/// `@unchecked Sendable`: what changes is touched only with the mutex held; mutex and condition live at fixed addresses and
/// may be used from any thread. A connection is used by the thread that took it out of `idle`, and by no other.
final class ReaderPool: @unchecked Sendable {
    /// How much of the database each connection keeps in memory, in KiB.
    private static let cacheSize = 512

    private let path: String
    private let file: Int64?
    private let busyTimeout: Int32
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let readEnded = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var idle: [Connection] = []
    /// The threads that read now.
    private var threads: [pthread_t] = []

    /// Makes an empty pool.
    ///
    /// - Parameters:
    ///   - path: The database file, from the root.
    ///   - busyTimeout: How long to wait, in milliseconds, while another process repairs the log after a crash.
    init(path: String, busyTimeout: Int32) {
        (self.path, self.busyTimeout) = (path, busyTimeout)
        file = FileNumber.of(path)
        pthread_mutex_init(mutex, nil)
        pthread_cond_init(readEnded, nil)
    }

    deinit {
        pthread_cond_destroy(readEnded)
        pthread_mutex_destroy(mutex)
        readEnded.deallocate()
        mutex.deallocate()
    }

    /// Lends the state that was committed last to `body`, once fewer than ``HandlerStore/maximumReads`` run.
    ///
    /// - Parameter time: The clock for ``Snapshot/now``.
    func read<R>(_ time: TimeSource, _ body: (borrowing Snapshot) throws -> R) throws -> R {
        let idle = try enter()
        var kept: Connection?
        defer { leave(kept) }
        let connection = try idle ?? open()
        do {
            let result = try Snapshot.lend(
                of: connection, time, check: { () throws(HandlerError) in try connection.checkIsStore() },
                to: body)
            kept = connection
            return result
        } catch {
            // One whose storage failed is closed, for it may keep a damaged page; the next read opens another.
            if (error as? HandlerError)?.isStorageFailure != true { kept = connection }
            throw error
        }
    }

    /// Closes the connections. A store does so before it closes its own, which as the last one removes the log; one that
    /// only reads cannot.
    func close() { withLock { idle.removeAll() } }

    /// - Returns: A connection that is open already.
    private func enter() throws(HandlerError) -> Connection? {
        let thread = pthread_self()
        return try withLock { () throws(HandlerError) in
            guard !threads.contains(thread) else {
                throw HandlerError(
                    .nestedStep,
                    "a read was begun inside a read; pass the outer snapshot on and read through that one")
            }
            while threads.count >= HandlerStore.maximumReads { pthread_cond_wait(readEnded, mutex) }
            threads.append(thread)
            return idle.popLast()
        }
    }

    private func leave(_ connection: Connection?) {
        let thread = pthread_self()
        withLock {
            threads.removeAll { $0 == thread }
            if let connection { idle.append(connection) }
        }
        pthread_cond_signal(readEnded)
    }

    private func open() throws(HandlerError) -> Connection {
        let connection = try Connection(reading: path, busyTimeout: busyTimeout)
        // Each read asks whether the name still leads to the connection's file, but not to the store's.
        guard FileNumber.of(path) == file else { throw connection.hasMoved() }
        try connection.executeOnce("PRAGMA cache_size = -\(Self.cacheSize)")
        return connection
    }

    private func withLock<R, Failure>(_ body: () throws(Failure) -> R) throws(Failure) -> R {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body()
    }
}
