#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The first bytes of a file as memory that all processes share that have mapped it.
package final class MappedFile: Sendable {
    // Mapped for the whole life of this object; what lies there must be atomic.
    package nonisolated(unsafe) let start: UnsafeMutableRawPointer
    private let size: Int

    /// - Parameter size: In bytes; the file must have as many.
    package init(_ file: OpenFile, size: Int) throws(Errno) {
        let memory = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor, 0)
        guard let memory, memory != MAP_FAILED else { throw Errno.current }
        start = memory
        self.size = size
    }

    deinit { munmap(start, size) }
}
