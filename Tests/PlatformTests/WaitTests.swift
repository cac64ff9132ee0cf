import Glibc
import Synchronization
import TestSupport
import TestThreads
import Testing

@testable import Platform

@Suite(.ownThread, .timeLimit(.minutes(2))) struct WaitTests {
    /// A pipe that a thread can hold.
    private final class WakeEnd: Sendable {
        let pipe: WakePipe
        init() throws { pipe = try WakePipe() }
    }

    @Test("H14 a wait ends with what is ready, and a raised pipe stays so until it is cleared")
    func polling() throws {
        let one = try WakePipe()
        let other = try WakePipe()
        var entries = [PollEntry(one.readEnd), PollEntry(other.readEnd), PollEntry(-1)]
        #expect(try PollEntry.wait(&entries, milliseconds: 0) == 0)
        other.raise()
        other.raise()
        #expect(try PollEntry.wait(&entries, milliseconds: -1) == 1)
        #expect(entries.map(\.isReady) == [false, true, false])
        #expect(entries[1].found == .readable)
        other.clear()
        #expect(!PollEntry.waitReadable(other.readEnd, milliseconds: 0))
        #expect(try PollEntry.wait(&entries, milliseconds: 0) == 0)
        #expect(!entries[1].isReady)
    }

    @Test("H14 a counter in a mapped file wakes the thread that waits for it, each time")
    func sharedCounter() throws {
        let folder = try TemporaryFolder()
        let file = try OpenFile(updating: folder.path + "/words")
        try [UInt8](repeating: 0, count: 64).withUnsafeBytes { try file.write($0, at: 0) }
        let (one, other) = (try MappedFile(file, size: 64), try MappedFile(file, size: 64))
        #expect(one.start != other.start)
        let done = try WakeEnd()
        // Each waits for the other's turn, so that none goes on unless it is woken.
        let first = try SystemThread("first") { takeTurns(raising: one.start, waitingFor: one.start + 8) }
        let second = try SystemThread("second") {
            takeTurns(waitingFor: other.start, raising: other.start + 8)
            done.pipe.raise()
        }
        try #require(PollEntry.waitReadable(done.pipe.readEnd, milliseconds: 30_000))
        first.join()
        second.join()
        #expect(SharedCounter(at: one.start + 8).value == 100)
    }

    @Test("H14 threads have their own numbers and names")
    func threads() throws {
        let number = Atomic<UInt>(0)
        let name = Mutex("")
        let thread = try SystemThread("platform", blocksSignals: true) {
            number.store(ThreadID.current.number, ordering: .relaxed)
            name.withLock { $0 = KernelFile.text("/proc/thread-self/comm") }
        }
        thread.join()
        let other = number.load(ordering: .relaxed)
        #expect(other != 0 && other != ThreadID.current.number)
        #expect(ThreadID.current == .current)
        #expect(name.withLock { $0 } == "platform\n")
    }

    @Test("H14 a thread that is to run no signal handler blocks signals, and its starter does not")
    func signals() throws {
        @Sendable func isBlocked() -> Bool {
            var mask = sigset_t()
            pthread_sigmask(SIG_BLOCK, nil, &mask)
            return sigismember(&mask, SIGURG) == 1
        }
        // What this thread inherited is not known; it is the test's own.
        var urgent = sigset_t()
        sigemptyset(&urgent)
        sigaddset(&urgent, SIGURG)
        pthread_sigmask(SIG_UNBLOCK, &urgent, nil)
        let found = Mutex<[Bool]>([])
        for blocks in [true, false] {
            let thread = try SystemThread("signals", blocksSignals: blocks) {
                found.withLock { $0.append(isBlocked()) }
            }
            thread.join()
        }
        #expect(found.withLock { $0 } == [true, false])
        #expect(!isBlocked())
    }

    @Test("H14 this boot has an id, and it stays the same")
    func boot() throws {
        let (one, other) = (try #require(ThisProcess.bootID()), try #require(ThisProcess.bootID()))
        #expect(one == other && one.count == 32 && one.contains { $0 != "0" })
    }
}

private func takeTurns(raising mine: UnsafeMutableRawPointer, waitingFor other: UnsafeMutableRawPointer) {
    for round in UInt32(1)...100 {
        SharedCounter(at: mine).raise()
        waitUntil(round, isReachedBy: SharedCounter(at: other))
    }
}

private func takeTurns(waitingFor other: UnsafeMutableRawPointer, raising mine: UnsafeMutableRawPointer) {
    for round in UInt32(1)...100 {
        waitUntil(round, isReachedBy: SharedCounter(at: other))
        SharedCounter(at: mine).raise()
    }
}

private func waitUntil(_ value: UInt32, isReachedBy counter: SharedCounter) {
    while counter.value < value { counter.wait(whileValueIs: value - 1) }
}
