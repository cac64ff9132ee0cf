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

    @Test("X4 canceling ends a wait, and every wait that begins afterwards") func canceled() throws {
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
        var entries = [PollEntry(wake.pipe.readEnd), PollEntry(mine.pipe.readEnd)]
        try loop.poll(&entries, milliseconds: -1)
        #expect(entries.count == 2 && entries[1].isReady)
        loop.runJobs()
        #expect(!ended.withLock { $0 })
        mine.pipe.clear()
        theirs.pipe.raise()
        while !ended.withLock({ $0 }) {
            loop.runJobs()
            try loop.poll(&entries, milliseconds: 30_000)
            wake.pipe.clear()
            loop.runJobs()
        }
        _ = task
    }

    private func wait(for signal: Signal, _ deadline: Deadline, _ loop: EventLoop) async -> WaitResult {
        var entries = [PollEntry(signal.pipe.readEnd)]
        return await loop.wait(&entries, until: deadline)
    }
}
