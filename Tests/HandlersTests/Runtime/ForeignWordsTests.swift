import HandlersTestKit
import TestSupport
import TestThreads
import Testing

@testable import Handlers

/// Words of errors, which may quote what others have sent: they are stored whatever they hold, and cost nobody else anything.
@Suite(.serialized, .ownThread, .timeLimit(.minutes(2)), .engines(.sqlite, .postgres, .postgresTwice))
struct ForeignWordsTests {
    /// Words that an engine, a limit or a terminal may refuse.
    static let words = [
        "a\0b", "\0", String(repeating: "\0", count: 5000), String(repeating: "€", count: 5000) + "\0",
        "\u{1B}[31m", "\u{FFFE}", "a\u{202E}b", "", String(repeating: "e\u{301}", count: 3000),
    ]

    private struct Fails: Handler {
        static let id = "words.fails"
        static let retry = RetryPolicy(attempts: 2, firstDelay: .seconds(1))
        var words: String
        func run(_ call: borrowing Call<TimerFired>) throws { throw Failure(description: words) }
    }

    private struct FailsAsync: AsyncHandler {
        static let id = "words.fails-async"
        static let retry = RetryPolicy(attempts: 2, firstDelay: .seconds(1), finally: .orElse)
        var words: String
        func run(_ call: AsyncCall<TimerFired>) async throws { throw Failure(description: words) }
    }

    private struct GivenUp: Handler {
        static let id = "words.given-up"
        func run(_ call: borrowing Call<Invalidation>) throws { try call.step.note("given up") }
    }

    private struct Takes: Handler {
        static let id = "words.takes"
        static let retry = RetryPolicy.never
        func run(_ call: borrowing Call<SignalReceived<[String: Int]>>) throws { try call.step.note("taken") }
    }

    private struct Catches: Workflow {
        static let id = "words.catches"
        var words: String
        func run(_ flow: Flow) async throws -> String {
            var caught = ""
            do {
                try await flow.step("fails") { _ in throw Failure(description: words) }
            } catch { caught = "\(error)" }
            try await flow.sleep(for: .seconds(1))
            return caught.isEmpty ? "none" : "caught"
        }
    }

    private func withWords(_ body: (Rig) async throws -> Void) async throws {
        try await withFolder { folder in
            let rig = try Rig(
                folder.file(),
                [
                    Fails.self, FailsAsync.self, GivenUp.self, Write<TimerFired>.self, Takes.self,
                    Catches.self, Say.self,
                ])
            defer { rig.runner.close() }
            try await body(rig)
        }
    }

    private func advance(_ rig: Rig) async throws {
        rig.clock.advance(by: .seconds(100))
        _ = try await rig.runner.finishDue(within: .seconds(60))
    }

    @Test(
        "R1 a handler whose error holds anything is tried again and quarantined, and the others run",
        arguments: words)
    func timer(words: String) async throws {
        try await withWords { rig in
            let (id, other) = try rig.store.step { step in
                let id = try step.schedule(Fails(words: words).durable, after: .zero)
                let other = try step.schedule(
                    FailsAsync(words: words).durable.orElse(GivenUp().durable), after: .zero)
                for number in 1...3 {
                    try step.schedule(Write<TimerFired>(text: "\(number)").durable, after: .milliseconds(10))
                }
                return (id, other)
            }
            try await advance(rig)
            #expect(try rig.store.notes() == ["1", "2", "3"])
            #expect(try rig.status(of: id)?.attempts == 1)
            for _ in 0..<3 { try await advance(rig) }
            #expect(try rig.status(of: id)?.state == .quarantined)
            #expect(try rig.status(of: id)?.attempts == 2)
            #expect(try rig.status(of: other) == nil)
            #expect(try rig.store.notes() == ["1", "2", "3", "given up"])
            let reason = try #require(try rig.status(of: id)?.reason)
            #expect(!reason.utf8.contains(0) && reason.utf8.count <= 4096)
            let failures = try rig.store.step { step in
                try step.first("SELECT count(*) FROM event WHERE name = ?", HandlerFailure.id) {
                    $0.integer(0)
                }
            }
            #expect(failures == 2)
        }
    }

    @Test(
        "R1 a handler that fails in the step of a program leaves what else is written there", arguments: words
    )
    func inStep(words: String) async throws {
        try await withWords { rig in
            let id = try rig.store.bind(Fails(words: words).durable)
            let disposition = try rig.store.step { step in
                try step.note("before")
                let disposition = try step.end(id, .result, with: TimerFired(dueAt: step.now))
                try step.note("after")
                return disposition
            }
            guard case .retrying = disposition else {
                Issue.record("\(disposition)")
                return
            }
            #expect(try rig.store.notes() == ["before", "after"])
        }
    }

    @Test(
        "R1 a signal that does not fit its receiver quarantines the receiver, and the sender's step commits",
        arguments: ["a\0b", "plain"])
    func signal(key: String) async throws {
        try await withWords { rig in
            let id = try rig.store.step { try $0.bind(Takes().durable, key: "door") }
            try rig.store.step { step in
                try step.note("sent")
                let disposition = try step.signal("door", [key: "no number"])
                guard case .quarantined? = disposition else {
                    Issue.record("\(String(describing: disposition))")
                    return
                }
            }
            #expect(try rig.store.notes() == ["sent"])
            #expect(try rig.status(of: id)?.state == .quarantined)
        }
    }

    @Test("R1 a workflow goes on after an error that holds anything", arguments: words)
    func workflow(words: String) async throws {
        try await withWords { rig in
            let id = try rig.store.step { try $0.start(Catches(words: words).durable) }
            for _ in 0..<3 { try await advance(rig) }
            let ending = try #require(try rig.store.step { try $0.ending(of: id) })
            #expect(ending.outcome == .result)
        }
    }

    @Test("R1 a handler may be invalidated for any reason", arguments: words)
    func reason(words: String) async throws {
        try await withWords { rig in
            let id = try rig.store.bind(Fails(words: words).durable.orElse(GivenUp().durable))
            try rig.store.step { try $0.invalidate(id, reason: InvalidationReason(rawValue: words)) }
            #expect(try rig.store.notes() == ["given up"])
            #expect(try rig.store.step { try $0.ending(of: id) }?.outcome == .invalidated)
        }
    }
}
