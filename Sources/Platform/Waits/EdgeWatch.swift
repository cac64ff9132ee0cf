import CPlatform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Watches descriptors for edges: each time that one becomes readable is found once.
///
/// A descriptor that stays readable is not found again, so many processes can watch a pipe that none of them reads.
package final class EdgeWatch: Sendable {
    /// Readable while ``take()`` would find something; for poll(2).
    package let descriptor: Int32

    package init() throws(Errno) {
        descriptor = dh_edges_make()
        guard descriptor >= 0 else { throw Errno.current }
    }

    deinit { close(descriptor) }

    /// Starts to watch a descriptor, and finds it if it is readable now.
    package func add(_ descriptor: Int32) throws(Errno) {
        guard dh_edges_add(self.descriptor, descriptor) == 0 else { throw Errno.current }
    }

    /// Ends the watch of a descriptor, before it is closed: a forked child may keep open what it means.
    package func remove(_ descriptor: Int32) { dh_edges_remove(self.descriptor, descriptor) }

    /// Returns the descriptors that became readable since the last call; never waits.
    package func take() -> [Int32] {
        var taken: [Int32] = []
        var some = [Int32](repeating: -1, count: 16)
        while true {
            let count = Int(dh_edges_take(descriptor, &some, Int32(some.count)))
            taken += some.prefix(count)
            if count < some.count { return taken }
        }
    }
}
