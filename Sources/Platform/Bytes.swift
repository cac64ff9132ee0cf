#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Comparing bytes in memory.
package enum Bytes {
    /// Compares `count` bytes: negative where the first that differs is smaller, 0 where none does.
    package static func order(_ one: UnsafeRawPointer, _ other: UnsafeRawPointer, count: Int) -> Int32 {
        memcmp(one, other, count)
    }
}
