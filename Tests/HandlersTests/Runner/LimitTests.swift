import Glibc
import Handlers
import Synchronization
import TestSupport
import TestThreads
import Testing

/// What the handlers below did, by their names, and what they may do.
private enum Told {
    static let log = Mutex<[String]>([])
    static let released = Mutex<Set<String>>([])

    static func note(_ text: String) { log.withLock { $0.append(text) } }
    static func has(_ text: String) -> Bool { log.withLock { $0.contains(text) } }
    static func release(_ name: String) { released.withLock { _ = $0.insert(name) } }
    static func isReleased(_ name: String) -> Bool { released.withLock { $0.contains(name) } }
}

/// Waits until it is canceled or released.
private struct Wait: AsyncHandler {
    static let id = "limits.wait"
    static let retry = RetryPolicy(attempts: 3, firstDelay: .zero)
    var name: String
    func run(_ call: AsyncCall<TimerFired>) async throws {
        Told.note("\(name) starts")
        do {
            while !Told.isReleased(name) { try await Task.sleep(for: .milliseconds(1)) }
        } catch {
            Told.note("\(name) is canceled")
            throw error
        }
        try call.end { try $0.note("\(name) ended in attempt \(call.attempt)") }
    }
}

/// Takes too long in its first attempt.
private struct Slow: AsyncHandler {
    static let id = "limits.slow"
    static let retry = RetryPolicy(attempts: 3, firstDelay: .zero)
    static let limit: Duration? = .milliseconds(50)
    /// Whether it goes on when it is canceled, and blocks its thread.
    var isDeaf = false
    func run(_ call: AsyncCall<TimerFired>) async throws {
        if call.attempt == 1, isDeaf {
            while !Told.isReleased("deaf") { usleep(1000) }
        } else if call.attempt == 1 {
            try await Task.sleep(for: .seconds(60))
        }
        do {
            try call.end { try $0.note("slow ended in attempt \(call.attempt)") }
        } catch let error as HandlerError where error.code == .leaseLost {
            Told.note("deaf has lost its lease")
        }
    }
}

/// Returns when it is canceled, without a word.
private struct Quiet: AsyncHandler {
    static let id = "limits.quiet"
    static let retry = RetryPolicy.never
    static let limit: Duration? = .milliseconds(50)
    func run(_ call: AsyncCall<TimerFired>) async throws { try? await Task.sleep(for: .seconds(60)) }
}

/// Ends, and then goes on.
private struct Tail: AsyncHandler {
    static let id = "limits.tail"
    func run(_ call: AsyncCall<TimerFired>) async throws {
        try call.end()
        Told.note("tail ends")
        while !Told.isReleased("tail"), !Task.isCancelled { try? await Task.sleep(for: .milliseconds(1)) }
        Told.note("tail is \(Task.isCancelled ? "canceled" : "left alone")")
    }
}

/// Blocks its thread.
private struct Block: AsyncHandler {
    static let id = "limits.block"
    func run(_ call: AsyncCall<TimerFired>) async throws {
        Told.note("block starts")
        while !Told.isReleased("block") { usleep(1000) }
    }
}

@Suite(.serialized, .ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres)) struct LimitTests {
    private static let handlers: [any DurableHandler.Type] = [
        Wait.self, Slow.self, Tail.self, Block.self, Quiet.self,
    ]

    private func withRunner(
        leases: Int = 4, grace: Duration = .seconds(60), handlers: [any DurableHandler.Type] = Self.handlers,
        _ body: (HandlerStore, HandlerRunner, String) async throws -> Void
    ) async throws {
        Told.log.withLock { $0 = [] }
        Told.released.withLock { $0 = [] }
        try await withFolder { folder in
            let store = try openStore(folder.file(), handlers, time: .system)
            let runner = try HandlerRunner(store, .init(leases: leases, grace: grace))
            defer { runner.close() }
            try runner.start()
            try await body(store, runner, folder.file())
            await runner.close(finishing: .seconds(60))
        }
    }

    private func until(_ condition: () throws -> Bool) async throws {
        while try !condition() { try await Task.sleep(for: .milliseconds(2)) }
    }

    @Test(
        "H23 an attempt that takes longer than its limit is canceled, has failed with that reason, and is tried again"
    )
    func limit() async throws {
        try await withRunner { store, runner, _ in
            let id = try store.step { try $0.schedule(Slow().durable, after: .zero) }
            #expect(try await runner.drain(for: .seconds(60)))
            #expect(try store.notes() == ["slow ended in attempt 2"])
            #expect(try store.keptEnding(of: id)?.outcome == .result)
            #expect(runner.abandonedHandlers == 0)
        }
    }

    @Test("H23 one that returns because it is canceled has failed, and is not taken for done")
    func returning() async throws {
        try await withRunner { store, runner, _ in
            let id = try store.step { try $0.schedule(Quiet().durable, after: .zero) }
            #expect(try await runner.drain(for: .seconds(60)))
            let status = try #require(try store.step { try $0.status(of: id) })
            #expect(status.state == .quarantined)
            #expect(
                status.reason?.contains("took longer than its limit of 0.05 seconds") == true, "\(status)")
        }
    }

    @Test(
        "H23 one that goes on when it is canceled is waited for no longer than the grace; its place is free, and it cannot end"
    )
    func deaf() async throws {
        try await withRunner(leases: 1, grace: .milliseconds(50)) { store, runner, _ in
            try store.step { step in
                try step.schedule(Slow(isDeaf: true).durable, after: .zero)
                try step.schedule(Slow().durable, after: .milliseconds(1))
            }
            try await until { try store.notes().count == 2 }
            #expect(try store.notes().allSatisfy { $0 == "slow ended in attempt 2" })
            #expect(runner.abandonedHandlers == 1)
            Told.release("deaf")
            try await until { Told.has("deaf has lost its lease") }
            #expect(try store.notes().count == 2 && store.waiting().isEmpty)
        }
    }

    @Test(
        "H23 a handler that is invalidated, discarded or replaced while it runs is canceled, here and by another process"
    )
    func ended() async throws {
        try await withRunner { store, runner, path in
            func running(_ name: String) async throws -> HandlerID<TimerFired> {
                let id = try store.step { try $0.schedule(Wait(name: name).durable, key: name, after: .zero) }
                try await until { Told.has("\(name) starts") }
                return id
            }
            let here = try await running("here")
            try store.step { _ = try $0.invalidate(here, reason: .cancelled) }
            try await until { Told.has("here is canceled") }

            let discarded = try await running("discarded")
            try store.step { try $0.discard(discarded) }
            try await until { Told.has("discarded is canceled") }

            // As another process does: the store's watch sees its notification.
            let elsewhere = try await running("elsewhere")
            let other = try openStore(path, Self.handlers, time: .system)
            try other.step { _ = try $0.invalidate(elsewhere, reason: .cancelled) }
            try await until { Told.has("elsewhere is canceled") }

            let replaced = try await running("replaced")
            try store.step {
                _ = try $0.schedule(Slow().durable, key: "replaced", ifTaken: .replace, after: .seconds(60))
            }
            try await until { Told.has("replaced is canceled") }
            #expect(try store.keptEnding(of: replaced)?.reason == .replaced)
            #expect(try store.notes().isEmpty && runner.abandonedHandlers == 0)
        }
    }

    @Test("H23 a handler that has ended itself is not canceled for that")
    func tail() async throws {
        try await withRunner { store, runner, _ in
            try store.step { _ = try $0.schedule(Tail().durable, after: .zero) }
            try await until { Told.has("tail ends") }
            // Another handler is ended meanwhile, so that the leases are compared.
            let id = try store.step { try $0.schedule(Wait(name: "w").durable, after: .zero) }
            try await until { Told.has("w starts") }
            try store.step { _ = try $0.invalidate(id, reason: .cancelled) }
            try await until { Told.has("w is canceled") }
            Told.release("tail")
            try await until { Told.has("tail is left alone") }
        }
    }

    @Test("H23 handlers that block their threads hold up no other task of the program")
    func blocking() async throws {
        try await withRunner(leases: 16) { store, runner, _ in
            try store.step { step in
                for _ in 0..<16 { try step.schedule(Block().durable, after: .zero) }
            }
            try await until { Told.log.withLock { $0.count } == 16 }
            // There are fewer threads for tasks than that on most machines.
            await withTaskGroup { group in
                for _ in 0..<64 { group.addTask { await Task.yield() } }
            }
            Told.release("block")
            #expect(try await runner.drain(for: .seconds(60)))
            #expect(try store.waiting().isEmpty)
        }
    }
}
