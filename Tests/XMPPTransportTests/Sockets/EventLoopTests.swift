import Platform
import Synchronization
import TestThreads
import Testing

@testable import XMPPTransport

/// Tasks on one thread, and the one poll(2) that waits for all of them.
@Suite("The event loop", .ownThread) struct EventLoopTests {
    /// A pipe that tests raise.
    private final class Signal: Sendable {
        let pipe: WakePipe
        init() throws { pipe = try WakePipe() }
    }

    @Test("X4 a task waits until its descriptor is ready, on the thread that turns the loop") func ready()
        throws
    {
        let signal = try Signal()
        let thread = ThreadID.current
        let result = try EventLoop.run { loop in
            #expect(ThreadID.current == thread)
            async let raised: Void = signal.pipe.raise()
            var entries = [PollEntry(signal.pipe.readEnd)]
            let result = await loop.wait(&entries, until: .after(.seconds(30)))
            await raised
            #expect(ThreadID.current == thread)
            #expect(entries[0].isReady)
            return result
        }
        #expect(result == .ready)
    }

    @Test("X4 a task waits no longer than to its deadline, and not for the descriptor of another task")
    func late() throws {
        let (silent, raised) = (try Signal(), try Signal())
        raised.pipe.raise()
        let results = try EventLoop.run { loop in
            async let first = wait(for: silent, .after(.milliseconds(20)), loop)
            async let second = wait(for: raised, .after(.seconds(30)), loop)
            return await [first, second]
        }
        #expect(results == [.timedOut, .ready])
    }

    @Test("X4 canceling ends a wait, and every wait that starts afterwards") func canceled() throws {
        let (silent, stop) = (try Signal(), try Signal())
        stop.pipe.raise()
        let results = try EventLoop.run(interrupt: stop.pipe.readEnd) { loop in
            let first = await wait(for: silent, .never, loop)
            return [first, await wait(for: silent, .never, loop)]
        }
        #expect(results == [.interrupted, .interrupted])
    }

    @Test("X4 the error of a task is thrown where the loop is run") func error() {
        struct Broken: Error {}
        #expect(throws: Broken.self) { try EventLoop.run { _ in throw Broken() } }
    }

    @Test("X4 one poll waits for the thread's own descriptors and for those of tasks") func own() throws {
        let (wake, mine, theirs) = (try Signal(), try Signal(), try Signal())
        let loop = EventLoop { wake.pipe.raise() }
        let ended = Mutex(false)
        let task = Task(executorPreference: loop) {
            _ = await wait(for: theirs, .never, loop)
            ended.withLock { $0 = true }
        }
        loop.runJobs()
        mine.pipe.raise()
        func pause(milliseconds: Int64?) throws -> Pause {
            var pause = Pause(
                [PollEntry(wake.pipe.readEnd), PollEntry(mine.pipe.readEnd)], milliseconds: milliseconds)
            loop.extend(&pause)
            pause.wait()
            loop.resume(pause.entries[2...])
            return pause
        }
        let first = try pause(milliseconds: nil)
        #expect(first.entries.count == 3 && first.entries[1].isReady)
        loop.runJobs()
        #expect(!ended.withLock { $0 })
        mine.pipe.clear()
        theirs.pipe.raise()
        while !ended.withLock({ $0 }) {
            loop.runJobs()
            _ = try pause(milliseconds: 30_000)
            wake.pipe.clear()
            loop.runJobs()
        }
        _ = task
    }

    @Test("X4 a wait ends by the clock of its loop") func clock() async throws {
        let now = Mutex<Int64>(0)
        let silent = try Signal()
        let loop = EventLoop(clock: { now.withLock { $0 } }, wake: {})
        let result = Mutex<WaitResult?>(nil)
        let task = Task(executorPreference: loop) {
            let found = await wait(for: silent, loop.deadline(after: .seconds(3600)), loop)
            result.withLock { $0 = found }
        }
        loop.runJobs()
        var pause = Pause([])
        loop.extend(&pause)
        #expect(pause.milliseconds == 3_600_000)
        now.withLock { $0 = 3_599_999_000_000 }
        loop.resume(pause.entries)
        #expect(!loop.isIdle)
        pause = Pause([])
        loop.extend(&pause)
        #expect(pause.milliseconds == 1)
        now.withLock { $0 += 1_000_000 }
        loop.resume(pause.entries)
        loop.runJobs()
        #expect(result.withLock { $0 } == .timedOut)
        #expect(loop.isIdle)
        await task.value
    }

    private func wait(for signal: Signal, _ deadline: Deadline, _ loop: EventLoop) async -> WaitResult {
        var entries = [PollEntry(signal.pipe.readEnd)]
        return await loop.wait(&entries, until: deadline)
    }
}
