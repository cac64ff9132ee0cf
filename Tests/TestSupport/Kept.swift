import Foundation

/// A value with its lock.
package final class Kept<Value: Sendable>: @unchecked Sendable {
    // Unchecked: the value is touched only while the lock is held.
    private var value: Value
    private let lock = NSLock()

    package init(_ value: Value) { self.value = value }

    package func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&value)
    }
}
