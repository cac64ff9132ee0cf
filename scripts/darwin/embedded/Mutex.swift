import Darwin

// The Synchronization of Embedded Swift for Apple's targets has no Mutex.
package struct Mutex<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    private let value: UnsafeMutablePointer<Value>
    private let lock = UnsafeMutablePointer<os_unfair_lock_s>.allocate(capacity: 1)

    package init(_ value: consuming sending Value) {
        self.value = .allocate(capacity: 1)
        self.value.initialize(to: value)
        lock.initialize(to: os_unfair_lock_s())
    }

    deinit {
        value.deinitialize(count: 1)
        value.deallocate()
        lock.deallocate()
    }

    package borrowing func withLock<Result: ~Copyable, E: Error>(
        _ body: (inout sending Value) throws(E) -> sending Result
    ) throws(E) -> sending Result {
        os_unfair_lock_lock(lock)
        defer { os_unfair_lock_unlock(lock) }
        return try body(&value.pointee)
    }
}
