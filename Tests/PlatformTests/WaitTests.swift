import Synchronization
import TestSupport
import TestThreads
import Testing

@testable import Platform

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

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

    @Test("H14 an edge is found once, also where the descriptor stays readable, and again with the next one")
    func edges() throws {
        let one = try WakePipe()
        let other = try WakePipe()
        let edges = try EdgeWatch()
        one.raise()
        try edges.add(one.readEnd)
        try edges.add(other.readEnd)
        #expect(PollEntry.waitReadable(edges.descriptor, milliseconds: 0))
        #expect(edges.take() == [one.readEnd])
        #expect(!PollEntry.waitReadable(edges.descriptor, milliseconds: 0))
        #expect(edges.take() == [])
        for _ in 0..<3 {
            one.raise()
            other.raise()
            #expect(Set(edges.take()) == [one.readEnd, other.readEnd])
            #expect(edges.take() == [])
        }
    }

    @Test("H14 many edges at once are all found")
    func manyEdges() throws {
        let pipes = try (0..<50).map { _ in try WakeEnd() }
        let edges = try EdgeWatch()
        for end in pipes { try edges.add(end.pipe.readEnd) }
        for end in pipes { end.pipe.raise() }
        #expect(edges.take().sorted() == pipes.map { $0.pipe.readEnd }.sorted())
    }

    @Test("H14 an armed descriptor is found once with all its events, and again when it is armed again")
    func events() throws {
        let (one, other) = try StreamSocket.pair()
        let queue = try EventQueue()
        func found() -> [[Int]] {
            queue.wait(milliseconds: 0).map { event in
                let named = event.found.intersection([.readable, .writable])
                return [Int(event.descriptor), Int(event.key), Int(named.rawValue)]
            }
        }
        let (reads, both) = (Int(PollEvents.readable.rawValue), Int(POLLIN | POLLOUT))
        try queue.arm(PollEntry(one.descriptor), key: 7)
        #expect(found() == [])
        other.send([1])
        #expect(found() == [[Int(one.descriptor), 7, reads]])
        #expect(found() == [])
        try queue.arm(PollEntry(one.descriptor, for: [.readable, .writable]), key: 8)
        #expect(found() == [[Int(one.descriptor), 8, both]])
        #expect(found() == [])
        // What has not been found goes with what has.
        #expect(one.receive(atMost: 8) == [1])
        try queue.arm(PollEntry(one.descriptor, for: [.readable, .writable]), key: 9)
        #expect(found() == [[Int(one.descriptor), 9, Int(PollEvents.writable.rawValue)]])
        other.send([2])
        #expect(found() == [])
        try queue.arm(PollEntry(one.descriptor), key: 10)
        queue.remove(one.descriptor)
        #expect(found() == [])
        #expect(throws: Errno.badDescriptor) { try queue.arm(PollEntry(4000), key: 1) }
    }

    @Test("H14 an armed descriptor that was closed leaves its number to another one")
    func closedWhileArmed() throws {
        let queue = try EventQueue()
        let (one, other) = try StreamSocket.pair()
        // Other threads take the lowest numbers.
        let number = fcntl(
            other.descriptor, F_DUPFD, Int32(clamping: min(ThisProcess.raiseFileLimit(), 4000) - 50))
        try queue.arm(PollEntry(number), key: 1)
        close(number)
        try #require(fcntl(one.descriptor, F_DUPFD, number) == number)
        defer { close(number) }
        try queue.arm(PollEntry(number), key: 2)
        other.send([1])
        #expect(queue.wait(milliseconds: 10_000).map(\.key) == [2])
        other.shutdownWriting()
        #expect(one.receive(atMost: 8) == [1])
        try queue.arm(PollEntry(number), key: 3)
        let end = queue.wait(milliseconds: 10_000)
        #expect(end.map(\.key) == [3] && end.allSatisfy { $0.found.contains(.readable) })
    }

    @Test("H14 a monitor waits until its state has what is wanted, or until the time is over")
    func monitor() throws {
        let monitor = Monitor(0)
        #expect(monitor.wait(limit: .milliseconds(1)) { $0 > 0 ? $0 : nil } == nil)
        let thread = try SystemThread("monitor") { monitor.withLock { $0 = 5 } }
        #expect(monitor.wait(limit: .seconds(60)) { $0 > 0 ? $0 : nil } == 5)
        thread.join()
        // Over before it starts.
        #expect(monitor.wait(limit: .seconds(-2)) { $0 > 5 ? $0 : nil } == nil)
        #expect(monitor.wait(limit: .seconds(-2)) { $0 > 4 ? $0 : nil } == 5)
    }

    @Test("H14 a descriptor that was removed is not found, though a copy of it is open as in a forked child")
    func removedEdge() throws {
        let end = try WakeEnd()
        let copy = dup(end.pipe.readEnd)
        let edges = try EdgeWatch()
        try edges.add(copy)
        edges.remove(copy)
        close(copy)
        end.pipe.raise()
        #expect(edges.take() == [])
    }

    @Test("H14 the end of a process is an edge, also if it has ended before; one that is gone has none")
    func processExit() throws {
        var process = pid_t()
        var arguments = [strdup("sleep"), strdup("60"), nil]
        try #require(posix_spawn(&process, "/bin/sleep", nil, nil, &arguments, nil) == 0)
        let edges = try EdgeWatch()
        let exit = try #require(ProcessExit(of: process))
        try edges.add(exit.descriptor)
        #expect(edges.take() == [])
        kill(process, SIGKILL)
        #expect(PollEntry.waitReadable(edges.descriptor, milliseconds: 30_000))
        #expect(edges.take() == [exit.descriptor])
        // A kqueue takes no process that has ended, whether its parent knows or not.
        #if !canImport(Darwin) && !DH_KQUEUE
            let second = try #require(ProcessExit(of: process))
            #expect(PollEntry.waitReadable(second.descriptor, milliseconds: 0))
        #endif
        waitpid(process, nil, 0)
        #expect(ProcessExit(of: process) == nil)
        #expect(ProcessExit(of: -1) == nil)
    }

    @Test("H14 threads have their own numbers and names")
    func threads() throws {
        let number = Atomic<UInt>(0)
        let name = Mutex("")
        let thread = try SystemThread("platform", blocksSignals: true) {
            number.store(ThreadID.current.number, ordering: .relaxed)
            name.withLock { $0 = Self.threadName() }
        }
        thread.join()
        let other = number.load(ordering: .relaxed)
        #expect(other != 0 && other != ThreadID.current.number)
        #expect(ThreadID.current == .current)
        #expect(name.withLock { $0 } == "platform")
    }

    private static func threadName() -> String {
        #if canImport(Darwin)
            withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { buffer in
                buffer.initialize(repeating: 0)
                pthread_getname_np(pthread_self(), buffer.baseAddress!, buffer.count)
                return String(cString: buffer.baseAddress!)
            }
        #else
            String(KernelFile.text("/proc/thread-self/comm").dropLast())
        #endif
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
