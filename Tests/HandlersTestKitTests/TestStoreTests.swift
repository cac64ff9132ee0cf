import Foundation
import Handlers
import HandlersTestKit
import TestThreads
import Testing

private let notes = Schema(module: "kit", migrations: ["CREATE TABLE note(text TEXT NOT NULL)"])

extension Step {
    fileprivate func note(_ text: String) throws(HandlerError) {
        try execute("INSERT INTO note VALUES (?)", text)
    }
}

extension TestStore {
    fileprivate func notes() throws -> [String] {
        try store.read { try $0.all("SELECT text FROM note ORDER BY rowid") { $0.text(0) } }
    }

    fileprivate func ending<Context>(of id: HandlerID<Context>) throws -> Ending? {
        try store.read { try $0.ending(of: id) }
    }
}

private struct Chime: Handler {
    static let id = "kit.chime"
    var name: String

    func run(_ call: borrowing Call<TimerFired>) throws {
        try call.step.note("\(name) \(call.dueAt.milliseconds) \(call.step.now.milliseconds) \(call.missed)")
    }
}

/// Fails until its third attempt.
private struct Stubborn: Handler {
    static let id = "kit.stubborn"
    static let retry = RetryPolicy(attempts: 3, firstDelay: .seconds(10), factor: 1)

    func run(_ call: borrowing Call<TimerFired>) throws {
        guard call.attempt == 3 else { throw CocoaError(.fileNoSuchFile) }
        try call.step.note("third")
    }
}

/// Ends after a moment, and has the next one follow at once.
private struct Countdown: AsyncHandler {
    static let id = "kit.countdown"
    var left: Int

    func run(_ call: AsyncCall<TimerFired>) async throws {
        await Task.yield()
        try call.end { step in
            try step.note("\(left)")
            if left > 0 { _ = try step.schedule(Countdown(left: left - 1).durable, after: .zero) }
        }
    }
}

/// Runs until it is canceled.
private struct Endless: AsyncHandler {
    static let id = "kit.endless"

    func run(_ call: AsyncCall<TimerFired>) async throws { try await Task.sleep(for: .seconds(3600)) }
}

private struct Wait: Handler {
    static let id = "kit.wait"
    func run(_ call: borrowing Call<Int>) throws {}
}

/// What ``Chime`` became in the next version of a program.
private struct Bell: Handler {
    static let id = "kit.bell"
    static let aliases = ["kit.chime"]
    var name: String

    func run(_ call: borrowing Call<TimerFired>) throws { try call.step.note("bell \(name)") }
}

private func withTest<R>(_ body: (TestStore) async throws -> R) async throws -> R {
    let handlers: [any DurableHandler.Type] = [
        Chime.self, Stubborn.self, Countdown.self, Endless.self, Wait.self,
    ]
    return try await withTestStore(registry: HandlerRegistry(handlers), schemas: [notes], body)
}

@Suite(.ownThread, .timeLimit(.minutes(5))) struct TestStoreTests {
    @Test("W6 a year passes in one call of a test: a daily timer is called each day, at its moment")
    func year() async throws {
        try await withTest { test in
            let day: Int64 = 86_400_000
            let start = test.clock.wall.milliseconds
            try test.store.step { step in
                _ = try step.schedule(
                    Chime(name: "d").durable, after: .seconds(86_400), every: .seconds(86_400))
            }
            try await test.advance(by: .seconds(365 * 86_400))
            let moments = (1...365).map { start + $0 * day }
            #expect(try test.notes() == moments.map { "d \($0) \($0) 0" })
            #expect(test.clock.wall.milliseconds == start + 365 * day)
        }
    }

    @Test("W6 nothing is called a millisecond early, and what is due without a wait is called without one")
    func moments() async throws {
        try await withTest { test in
            let id = try test.store.step { try $0.schedule(Chime(name: "s").durable, after: .seconds(10)) }
            #expect(try await test.runDue() == .seconds(10))
            try await test.advance(by: .milliseconds(9999))
            #expect(try test.ending(of: id) == nil)
            try await test.advance(by: .milliseconds(1))
            #expect(try test.ending(of: id)?.outcome == .result)
            let now = try test.store.step { try $0.schedule(Chime(name: "n").durable, after: .zero) }
            try await test.advance(by: .zero)
            #expect(try test.ending(of: now)?.outcome == .result)
            #expect(try await test.runDue() == nil)
        }
    }

    @Test("W6 the waits between attempts pass in a test, too")
    func attempts() async throws {
        try await withTest { test in
            let id = try test.store.step { try $0.schedule(Stubborn().durable, after: .zero) }
            try await test.runDue()
            #expect(try test.store.step { try $0.status(of: id) }?.attempts == 1)
            try await test.advance(by: .seconds(3600))
            #expect(try test.notes() == ["third"])
            #expect(try test.ending(of: id)?.outcome == .result)
        }
    }

    @Test("W6 a test waits for async handlers, and for those that they have made due")
    func asyncHandlers() async throws {
        try await withTest { test in
            _ = try test.store.step { try $0.schedule(Countdown(left: 3).durable, after: .zero) }
            try await test.runDue()
            #expect(try test.notes() == ["3", "2", "1", "0"])
        }
    }

    @Test("W6 an async handler that runs on is an error of the test, and a canceled test waits no longer")
    func endless() async throws {
        try await withTest { test in
            _ = try test.store.step { try $0.schedule(Endless().durable, after: .zero) }
            let error = await #expect(throws: HandlerError.self) {
                _ = try await test.runDue(within: .milliseconds(50))
            }
            #expect(error?.code == .handlersRunOn)
            let waiting = Task { try await test.advance(by: .seconds(1)) }
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
        }
    }

    @Test("W6 connected time passes with a test's clock: a handler expires at its timeout and not before")
    func timeouts() async throws {
        try await withTest { test in
            try await test.runDue()
            let id = try test.store.step { try $0.bind(Wait().durable, timeout: .seconds(300)) }
            try await test.advance(by: .seconds(299))
            #expect(try test.ending(of: id) == nil)
            try await test.advance(by: .seconds(1))
            #expect(try test.ending(of: id)?.outcome == .timeout)
        }
    }

    @Test("W6 handlers outlive the program of a test, also when its next version has renamed them")
    func restarting() async throws {
        try await withTest { test in
            let first = test.store
            let start = test.clock.wall.milliseconds
            _ = try test.store.step { step in
                try step.schedule(Chime(name: "a").durable, after: .seconds(10))
                return try step.schedule(Chime(name: "b").durable, after: .seconds(20))
            }
            try await test.advance(by: .seconds(5))
            try test.restart()
            #expect(test.store !== first)
            try await test.advance(by: .seconds(5))
            #expect(try test.notes() == ["a \(start + 10_000) \(start + 10_000) 0"])
            try test.restart(registry: HandlerRegistry([Bell.self]))
            try await test.advance(by: .seconds(10))
            #expect(try test.notes().last == "bell b")
        }
    }

    @Test("H32 a test reads its store without a step, at the time of its clock, also after a restart")
    func reading() async throws {
        try await withTest { test in
            let first = test.store
            try test.store.step { try $0.note("kept") }
            test.clock.advance(by: .seconds(5))
            #expect(try test.store.read { $0.now } == test.clock.wall)
            try test.restart()
            #expect(try test.notes() == ["kept"])
            #expect(try first.read { try $0.handlers() } == [])
        }
    }

    @Test("W6 what a test has stored goes with it, also when it fails")
    func folder() async throws {
        struct Failure: Error {}
        var path = ""
        await #expect(throws: Failure.self) {
            try await withTest { test in
                path = test.path
                #expect(FileManager.default.fileExists(atPath: path))
                throw Failure()
            }
        }
        #expect(!FileManager.default.fileExists(atPath: URL(filePath: path).deletingLastPathComponent().path))
    }
}
