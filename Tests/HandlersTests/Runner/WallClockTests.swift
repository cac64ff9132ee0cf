import Foundation
import Glibc
import HandlersTestKit
import Synchronization
import TestSupport
import TestThreads
import Testing

@testable import Handlers

/// A wall clock that a test sets, and what the system reports of that.
private final class SetClock: Sendable {
    private struct State {
        var ahead = Duration.zero
        var actions: [ObjectIdentifier: @Sendable () -> Void] = [:]
    }

    private final class Registration: Sendable {
        private let clock: SetClock
        init(_ clock: SetClock) { self.clock = clock }
        deinit { clock.state.withLock { $0.actions[ObjectIdentifier(self)] = nil } }
    }

    private let state = Mutex(State())

    var registrations: Int { state.withLock { $0.actions.count } }

    var source: TimeSource {
        TimeSource(
            wall: { TimeSource.systemWall() + self.state.withLock { $0.ahead } },
            onSet: { action in
                let registration = Registration(self)
                self.state.withLock { $0.actions[ObjectIdentifier(registration)] = action }
                return registration
            })
    }

    func set(by difference: Duration) {
        let actions = state.withLock { state in
            state.ahead += difference
            return Array(state.actions.values)
        }
        for action in actions { action() }
    }
}

/// Does something when it goes.
private final class Ending: Sendable {
    private let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    deinit { body() }
}

private struct Chime: Handler {
    static let id = "wall.chime"
    static let retry = RetryPolicy(attempts: 3, firstDelay: .seconds(10))
    var failures = 0
    func run(_ call: borrowing Call<TimerFired>) throws {
        if call.attempt <= failures { throw Failure() }
        try call.step.note("attempt \(call.attempt)")
    }
}

/// The runners of these tests rest for an hour at most, so without the report they would miss what becomes due.
@Suite(.serialized, .ownThread, .timeLimit(.minutes(2))) struct WallClockTests {
    private func withRunner(
        _ body: (SetClock, HandlerStore, HandlerRunner) async throws -> Void
    ) async throws {
        try await withFolder { folder in
            let clock = SetClock()
            let store = try openStore(folder.file(), [Chime.self], time: clock.source)
            let runner = try HandlerRunner(store)
            defer { runner.close() }
            runner.rest(atMost: .seconds(3600))
            try runner.start()
            try await body(clock, store, runner)
        }
    }

    @Test("H7 the watch of the clock goes without the lock of the runners, for which its thread may wait")
    func watchGoes() throws {
        try withFolder { folder in
            let store = Mutex<HandlerStore?>(nil)
            let hasReported = Mutex(false)
            let time = TimeSource(
                wall: TimeSource.systemWall,
                onSet: { _ in
                    Ending {
                        let (listeners, end) = (store.withLock { $0?.listeners }, DispatchSemaphore(value: 0))
                        Foundation.Thread {
                            listeners?.addAllDue()
                            end.signal()
                        }.start()
                        let isOver = end.wait(timeout: .now() + 60) == .success
                        hasReported.withLock { $0 = isOver }
                    }
                })
            let opened = try openStore(folder.file(), [Chime.self], time: time)
            store.withLock { $0 = opened }
            let runner = try HandlerRunner(opened)
            try runner.start()
            runner.close()
            #expect(hasReported.withLock { $0 })
            store.withLock { $0 = nil }
        }
    }

    @Test(
        "H15 a timer is called at once when the wall clock is set beyond its time, also while its process rests"
    )
    func ahead() async throws {
        try await withRunner { clock, store, runner in
            let id = try store.step { try $0.schedule(Chime().durable, after: .seconds(86_400)) }
            _ = try await runner.drain(for: .seconds(30))
            #expect(try store.notes().isEmpty)
            clock.set(by: .seconds(86_401))
            #expect(try await store.ending(of: id).outcome == .result)
        }
    }

    @Test("H13 a retry that a clock that was ahead put off is called at once when the clock is set back")
    func back() async throws {
        try await withRunner { clock, store, runner in
            // The list of what was put off is looked at now, and then once in a minute, unless the clock is known to have changed.
            _ = try await runner.drain(for: .seconds(30))
            clock.set(by: .seconds(86_400))
            let id = try store.step { try $0.schedule(Chime(failures: 1).durable, after: .zero) }
            while try store.step({ try $0.status(of: id) })?.attempts != 1 {
                try await Task.sleep(for: .milliseconds(2))
            }
            clock.set(by: .seconds(-86_400))
            #expect(try await store.ending(of: id).outcome == .result)
            #expect(try store.notes() == ["attempt 2"])
        }
    }

    @Test("H15 the runners of a store register once, and closed ones leave nothing behind")
    func registered() async throws {
        try await withRunner { clock, store, runner in
            #expect(clock.registrations == 1)
            let other = try HandlerRunner(store)
            try other.start()
            #expect(clock.registrations == 1)
            runner.close()
            #expect(clock.registrations == 1)
            other.close()
            #expect(clock.registrations == 0)
        }
    }

    /// Sets the machine's clock to the time that it shows, which counts as a change.
    ///
    /// - Returns: Whether this process may do that.
    private static func setMachineClock() -> Bool {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        return clock_settime(CLOCK_REALTIME, &now) == 0
    }

    @Test(
        "H15 all that have registered learn that the machine's clock was set, again and again",
        .enabled("the process may set the machine's clock") { setMachineClock() })
    func machine() async throws {
        let (changes, continuation) = AsyncStream.makeStream(of: Int.self)
        let registrations = try (0..<2).map { number in
            try WallClockWatch.process.add { continuation.yield(number) }
        }
        var next = changes.makeAsyncIterator()
        for _ in 0..<2 {
            #expect(Self.setMachineClock())
            var missing: Set = [0, 1]
            while let number = await next.next() {
                missing.remove(number)
                if missing.isEmpty { break }
            }
        }
        withExtendedLifetime(registrations) {}
    }
}
