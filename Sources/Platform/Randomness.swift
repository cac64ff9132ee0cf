import Synchronization

/// The random numbers of the process: those of the system, unless a simulated world has replaced them.
package struct Randomness: RandomNumberGenerator, Sendable {
    private static let isReplaced = Atomic(false)
    private static let source = Mutex<(@Sendable () -> UInt64)?>(nil)

    package init() {}

    package func next() -> UInt64 {
        if let number = Self.replaced({ $0() }) { return number }
        var system = SystemRandomNumberGenerator()
        return system.next()
    }

    /// Replaces the randomness of the whole process, including keys: only for programs that simulate.
    ///
    /// - Parameter source: The next number; called on any thread. Nil restores the system's randomness.
    package static func replace(by source: (@Sendable () -> UInt64)?) {
        Self.source.withLock { $0 = source }
        isReplaced.store(source != nil, ordering: .releasing)
    }

    /// Bytes of the replaced source.
    ///
    /// - Returns: Nil while the system's randomness is in force: a cryptographic library has its own way to it.
    package static func replacedBytes(_ count: Int) -> [UInt8]? {
        replaced { source in
            var bytes: [UInt8] = []
            bytes.reserveCapacity(count + 8)
            while bytes.count < count {
                withUnsafeBytes(of: source().littleEndian) { bytes.append(contentsOf: $0) }
            }
            return Array(bytes.prefix(count))
        }
    }

    private static func replaced<Value>(_ draw: (@Sendable () -> UInt64) -> Value) -> Value? {
        guard isReplaced.load(ordering: .acquiring) else { return nil }
        return source.withLock { $0 }.map(draw)
    }
}
