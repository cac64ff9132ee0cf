import CWaits
import Synchronization

/// A counter in shared memory that every store of a database rings when it has changed something that others see.
///
/// The kernel's own word of a changed file comes too early: SQLite writes and syncs the log first and makes the commit
/// visible afterwards, in shared memory, of which there is no word at all. A look in between finds nothing, and nothing
/// would call for another. So the one who commits rings, afterwards. One who dies in between is told of by its death.
struct ChangeBell {
    /// In memory that is mapped for as long as this is used.
    let rings: UnsafePointer<Atomic<UInt32>>

    /// How often it was rung, modulo 2^32.
    var count: UInt32 { rings.pointee.load(ordering: .acquiring) }

    func ring() {
        rings.pointee.add(1, ordering: .releasing)
        dh_word_wake(rings)
    }

    /// Waits until the count is no longer this one; may return earlier.
    func wait(whileCountIs count: UInt32) { dh_word_wait(rings, count) }
}
