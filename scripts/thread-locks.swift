import Glibc

/// A lock in place of that of Synchronization, for builds with ThreadSanitizer, which does not see the futex of that one.
///
/// `scripts/sanitize.sh threads` puts it into a copy of the package.
public struct Mutex<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    // The lock guards the value; both stay where they are until the owner goes.
    private let lock: UnsafeMutablePointer<pthread_mutex_t>
    private let value: UnsafeMutablePointer<Value>

    public init(_ initial: consuming sending Value) {
        lock = .allocate(capacity: 1)
        value = .allocate(capacity: 1)
        pthread_mutex_init(lock, nil)
        value.initialize(to: initial)
    }

    deinit {
        value.deinitialize(count: 1)
        pthread_mutex_destroy(lock)
        value.deallocate()
        lock.deallocate()
    }

    public borrowing func withLock<Result: ~Copyable, Failure: Error>(
        _ body: (inout sending Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        return try body(&value.pointee)
    }
}
