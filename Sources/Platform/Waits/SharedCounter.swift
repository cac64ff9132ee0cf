import CPlatform
import Synchronization

/// A counter in memory that several processes have mapped, for which any of them can wait.
package struct SharedCounter {
    private let word: UnsafePointer<Atomic<UInt32>>

    /// - Parameter place: Four bytes that are mapped for as long as this is used.
    package init(at place: UnsafeMutableRawPointer) {
        word = UnsafePointer(place.assumingMemoryBound(to: Atomic<UInt32>.self))
    }

    /// The number of times that it was raised, modulo 2^32.
    package var value: UInt32 { word.pointee.load(ordering: .acquiring) }

    /// Adds one and wakes all waiters, in one system call that never blocks.
    package func raise() {
        word.pointee.add(1, ordering: .releasing)
        dh_word_wake(word)
    }

    /// Waits until it has another value; may return earlier.
    package func wait(whileValueIs value: UInt32) { dh_word_wait(word, value) }
}
