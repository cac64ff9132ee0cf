import Handlers
import HandlersTestKit
import Synchronization
import TestThreads
import Testing

/// Copies pages, and fails at some of them once.
private struct Copy: AsyncHandler {
    static let id = "progress.copy"
    static let retry = RetryPolicy(attempts: 9, firstDelay: .seconds(1), factor: 1)
    var pages: Int
    func run(_ call: AsyncCall<TimerFired>) async throws {
        let start = try call.saved(as: Int.self) ?? 0
        for page in start..<pages {
            let isNew = copied.withLock { pages in
                defer { pages.append(page) }
                return !pages.contains(page)
            }
            try call.save(page + 1, note: "\(page + 1) of \(pages) pages") { try $0.note("page \(page)") }
            if isNew, page % 3 == 2 { throw Unreachable() }
        }
        try call.end(result: start)
    }
}

private let copied = Mutex<[Int]>([])

/// Saves, at a signal, when it is no longer the one that runs.
private struct Stale: AsyncHandler {
    static let id = "progress.stale"
    static let said = Mutex<[String]>([])
    static let hasSaved = AsyncStream<Void>.makeStream()
    static let isLost = AsyncStream<Void>.makeStream()
    func run(_ call: AsyncCall<TimerFired>) async throws {
        try call.save("first")
        Self.hasSaved.continuation.yield()
        for await _ in Self.isLost.stream { break }
        for attempt in [{ try call.save("late") { try $0.note("late") } }, { try call.end() }] {
            do { try attempt() } catch { Self.said.withLock { $0.append("\(error)") } }
        }
    }
}

/// Says nothing for longer than it may, unless it saves in between.
private struct Silent: AsyncHandler {
    static let id = "progress.silent"
    static let retry = RetryPolicy(attempts: 1, finally: .orElse)
    static let silence: Duration? = .milliseconds(200)
    var saves: Int
    func run(_ call: AsyncCall<TimerFired>) async throws {
        for save in 0..<saves {
            try await Task.sleep(for: .milliseconds(50))
            try call.save(save)
        }
        if saves == 0 { try await Task.sleep(for: .seconds(600)) }
    }
}

@Suite(.ownThread, .serialized) struct SavedProgressTests {
    private static let handlers: [any DurableHandler.Type] = [Copy.self, Stale.self, Silent.self]

    @Test("H39 the next attempt reads what the last one saved, and people see it")
    func nextAttempt() async throws {
        copied.withLock { $0 = [] }
        try await Bank.withShop(Self.handlers) { test in
            let id = try test.store.step { try $0.schedule(Copy(pages: 8).durable, after: .zero) }
            try await test.runDue()
            let progress = try #require(try test.store.read { try $0.progress(of: id) })
            #expect((progress.note, progress.savedAt) == ("3 of 8 pages", test.clock.wall))
            #expect(try progress.value(as: Int.self) == 3)
            try test.restart()
            try await test.advance(by: .seconds(10))
            #expect(copied.withLock { $0 } == Array(0..<8))
            #expect(try await test.store.value(of: id, as: Int.self) == 6)
            #expect(try test.notes() == (0..<8).map { "page \($0)" })
            // It is kept as long as the handler.
            #expect(
                try test.store.read {
                    try $0.first("SELECT count(*) FROM handler_progress") { $0.integer(0) }
                } == 0)
        }
    }

    @Test("H39 a process that has lost its lease saves nothing, and learns why")
    func fenced() async throws {
        try await Bank.withShop(Self.handlers) { test in
            let id = try test.store.step { try $0.schedule(Stale().durable, after: .zero) }
            async let run = test.runDue()
            for await _ in Stale.hasSaved.stream { break }
            try test.store.step { _ = try $0.invalidate(id, reason: .cancelled) }
            Stale.isLost.continuation.yield()
            _ = try await run
            #expect(try test.notes().isEmpty)
            let said = Stale.said.withLock { $0 }
            #expect(
                said
                    == Array(
                        repeating:
                            "the handler \(id) ('progress.stale') has lost its lease: another process runs it, or it was ended meanwhile; nothing was written",
                        count: 2))
            #expect(
                try test.store.read {
                    try $0.first("SELECT count(*) FROM handler_progress") { $0.integer(0) }
                } == 0)
        }
    }

    @Test("H39 a handler that saves nothing for its limit of silence has failed, and one that saves has not")
    func silence() async throws {
        try await Bank.withShop(Self.handlers) { test in
            let (silent, busy) = try test.store.step { step in
                (
                    try step.schedule(Silent(saves: 0).durable, after: .zero),
                    try step.schedule(Silent(saves: 12).durable, after: .zero)
                )
            }
            try await test.runDue()
            try await test.advance(by: .seconds(5))
            let ending = try #require(try test.store.read { try $0.ending(of: silent) })
            #expect(
                ending.error
                    == CallError(
                        ErrorCode(rawValue: "fell-silent"),
                        "the handler 'progress.silent' saved no progress for its limit of silence, 0.2 seconds"
                    ))
            #expect(try test.store.read { try $0.ending(of: busy) }?.outcome == .result)
        }
    }
}
