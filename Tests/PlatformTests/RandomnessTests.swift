import Platform
import Synchronization
import TestThreads
import Testing

/// The randomness of the process, and its replacement.
@Suite(.ownThread, .serialized) struct RandomnessTests {
    /// Replaces the randomness for the calling thread; other tests run beside this one.
    private func replaced<Result>(by numbers: [UInt64], _ body: () throws -> Result) rethrows -> Result {
        let left = Mutex(numbers[...])
        let thread = ThreadID.current
        Randomness.replace {
            var system = SystemRandomNumberGenerator()
            guard ThreadID.current == thread else { return system.next() }
            return left.withLock { $0.popFirst() } ?? system.next()
        }
        defer { Randomness.replace(by: nil) }
        return try body()
    }

    @Test("Z1 a replaced source gives the numbers, and the bytes in little-endian order") func numbers() {
        replaced(by: [7, 0x0807_0605_0403_0201, 0x0a09]) {
            #expect(Randomness().next() == 7)
            #expect(Randomness.replacedBytes(10) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
        }
        #expect(Randomness.replacedBytes(1) == nil)
    }

    @Test("Z1 without a replacement two numbers differ") func system() {
        #expect(Randomness().next() != Randomness().next())
    }
}
