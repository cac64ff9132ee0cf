import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Memory without a file that can be mapped several times, each time at another address.
package final class SharedMemory {
    /// In bytes.
    package let size: Int
    private let descriptor: Int32

    /// - Parameter size: In bytes; all are zero.
    package init(size: Int) throws(Errno) {
        self.size = size
        descriptor = dh_memory_file()
        guard descriptor >= 0 else { throw Errno.current }
        guard ftruncate(descriptor, off_t(size)) == 0 else {
            let error = Errno.current
            close(descriptor)
            throw error
        }
    }

    deinit { close(descriptor) }

    package func map() throws(Errno) -> Mapping { try Mapping(self) }

    /// The memory at one of its addresses.
    package final class Mapping {
        package let start: UnsafeMutableRawPointer
        /// In bytes.
        package var size: Int { memory.size }
        private var memory: SharedMemory

        fileprivate init(_ memory: SharedMemory) throws(Errno) {
            self.memory = memory
            let start = mmap(nil, memory.size, PROT_READ | PROT_WRITE, MAP_SHARED, memory.descriptor, 0)
            guard let start, start != MAP_FAILED else { throw Errno.current }
            self.start = start
        }

        deinit { munmap(start, memory.size) }

        /// From here on this address has a copy of its own: what is written there, nobody else sees.
        package func detach() throws(Errno) {
            let flags = MAP_PRIVATE | MAP_FIXED
            let copy = mmap(start, memory.size, PROT_READ | PROT_WRITE, flags, memory.descriptor, 0)
            guard copy == start else { throw Errno.current }
        }

        /// From here on this address shows other memory, of the same size.
        package func show(_ other: SharedMemory) throws(Errno) {
            if other === memory { return }
            let flags = MAP_SHARED | MAP_FIXED
            let shown = mmap(start, memory.size, PROT_READ | PROT_WRITE, flags, other.descriptor, 0)
            guard shown == start else { throw Errno.current }
            memory = other
        }
    }
}
