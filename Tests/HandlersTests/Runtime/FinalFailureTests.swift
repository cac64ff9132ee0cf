import Synchronization
import TestThreads
import TestSupport
import Testing
import TestServers

@testable import Handlers

/// Fails at once, and then its invalidation handler runs.
private enum OrElse: Policy { static let retry = RetryPolicy(attempts: 1, finally: .orElse) }
/// Three errors, however many processes die.
private enum Patient: Policy {
    static let retry = RetryPolicy(attempts: 3, firstDelay: .zero, deaths: .max, finally: .orElse)
}

/// Async, and fails whenever it runs.
private struct FlakyTask: AsyncHandler {
    static let id = "test.flaky-task"
    static let retry = OrElse.retry
    func run(_ call: AsyncCall<Job>) async throws { throw Failure(description: "task failed") }
}

/// Takes another argument than the one that was stored.
private struct Retyped: Handler {
    static let id = Flaky<OrElse>.id
    static let retry = OrElse.retry
    var name: Int
    func run(_ call: borrowing Call<Job>) throws {}
}

/// What a runner reported.
private final class Reports: Sendable {
    private let kept = Mutex<[String]>([])
    var all: [String] { kept.withLock { $0 } }
    var configuration: HandlerRunner.Configuration {
        .init { error in self.kept.withLock { $0.append("\(error)") } }
    }
}

/// The program that dies in a handler, started as often as it takes.
private struct Program {
    let path: String

    func expect(_ words: [String], _ said: String) throws {
        let output = try run(words)
        #expect(output == said)
    }

    func run(_ words: [String]) throws -> String {
        let child = try ChildProcess(
            BuiltProduct.path("HandlersTestProgram"), ["deadly", path] + words, output: .pipe,
            errors: .null)
        let output = try child.output?.readToEnd(deadline: .now + .seconds(60)) ?? ""
        _ = try child.waitUntilExit(deadline: .now + .seconds(60))
        return output
    }
}

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct FinalFailureTests {
    private func failures(_ store: HandlerStore) throws -> [HandlerFailure] {
        try store.step { step in
            try step.all("SELECT payload FROM event WHERE name = ? ORDER BY id", HandlerFailure.id) {
                (row) throws(HandlerError) in row.blob(0)
            }
        }.map { try ArgumentCoding.value(HandlerFailure.self, from: $0) }
    }

    @Test(
        "H30 a handler whose attempts are used up posts an event and is reported once, by name, row, runs and error"
    )
    func reported() throws {
        try withRig([Flaky<Thrice>.self]) { rig in
            let reports = Reports()
            let runner = try HandlerRunner(rig.store, reports.configuration)
            defer { runner.close() }
            let other = Reports()
            let second = try HandlerRunner(rig.store, other.configuration)
            defer { second.close() }
            rig.runner.close()
            let id = try rig.store.bind(Flaky<Thrice>(name: "a").durable)
            try rig.end(id)
            for _ in 0..<2 {
                #expect(try failures(rig.store) == [], "it is tried again")
                rig.clock.advance(by: .seconds(20))
                try runner.runDue()
            }
            let failure = try #require(try failures(rig.store).first)
            #expect(try failures(rig.store).count == 1)
            #expect(
                failure.handler == AnyHandlerID(id) && failure.name == Flaky<Thrice>.id
                    && failure.scope == nil)
            #expect(failure.attempts == 3 && failure.deaths == 0 && !failure.isInvalidated)
            #expect(failure.error == "a failed 3")
            #expect(
                reports.all == [
                    "the handler 'test.flaky.Thrice' (row \(id)) failed for good after 3 runs, 0 deaths: a failed 3; the row is in quarantine; requeue or discard it"
                ])
            #expect(other.all == [], "one runner reports it")
            #expect(try rig.status(of: id)?.state == .quarantined)
        }
    }

    @Test("H30 a handler with that policy is invalidated with the reason failed, arguments included")
    func orElse() throws {
        try withRig([Flaky<OrElse>.self, Gone.self, Relay<OrElse>.self]) { rig in
            let workshop = Workshop()
            try rig.runner.attach(workshop)
            let inner = try Flaky<OrElse>(name: "inner").durable.orElse(Gone(name: "inner").durable)
            let id = try rig.store.bind(
                Relay<OrElse>(then: inner).durable.orElse(Gone(name: "outer").durable))
            #expect(try rig.end(id, with: Job("word", in: workshop)) == .failed(reason: "inner failed 1"))
            #expect(try rig.store.notes() == [], "not in the step that failed")
            try rig.runner.runDue()
            #expect(
                try rig.store.notes() == [
                    "outer gone: test.relay.OrElse failed", "inner gone: test.flaky.OrElse failed",
                ])
            let ending = try #require(try rig.store.keptEnding(of: id))
            #expect(ending.outcome == .invalidated && ending.reason == .failed)
            #expect(try rig.handlers() == [])
            #expect(try failures(rig.store).map(\.isInvalidated) == [true])
            #expect(try failures(rig.store).map(\.scope) == [workshop.scope])
        }
    }

    @Test("H30 a nested handler's policy says when to try again; the outer one's says what comes after")
    func nested() throws {
        try withRig([Flaky<OrElse>.self, Relay<Never>.self]) { rig in
            let id = try rig.store.bind(Relay<Never>(then: Flaky<OrElse>(name: "i").durable).durable)
            #expect(try rig.end(id) == .quarantined(reason: "i failed 1"))
        }
    }

    @Test("H30 an async handler with that policy is invalidated after its last attempt")
    func leased() async throws {
        try await withFolder { folder in
            let store = try openStore(folder.file(), [FlakyTask.self, Gone.self])
            let runner = try HandlerRunner(store)
            defer { runner.close() }
            let id = try store.bind(FlakyTask().durable, orElse: Gone(name: "t").durable)
            #expect(try store.step { try $0.end(id, .result, with: Job()) } == .queued)
            #expect(try await runner.drain(for: .seconds(60)))
            #expect(try store.notes() == ["t gone: test.flaky-task failed"])
            #expect(try failures(store).map(\.attempts) == [1])
        }
    }

    @Test(
        "H30 an invalidation handler that fails is tried again by its own policy, and then quarantined and reported"
    )
    func failingOrElse() throws {
        try withRig([Flaky<OrElse>.self, FlakyEnd<Thrice>.self]) { rig in
            let id = try rig.store.bind(
                Flaky<OrElse>(name: "a").durable.orElse(FlakyEnd<Thrice>(name: "end").durable))
            try rig.end(id)
            for _ in 0..<3 {
                #expect(try rig.status(of: id)?.state == .pending)
                try rig.runWhenDue(id)
            }
            #expect(try rig.status(of: id)?.state == .quarantined)
            #expect(try failures(rig.store).map(\.error) == ["a failed 1", "end failed"])
            #expect(try failures(rig.store).map(\.isInvalidated) == [true, false])
        }
    }

    @Test(
        "H30 what a later program can repair, and a call of a standing handler, is quarantined in spite of that policy"
    )
    func repairable() throws {
        try withFolder { folder in
            var id = HandlerID<Job>(rawValue: 0)
            try withRig(folder.file(), [Flaky<OrElse>.self]) { rig in
                id = try rig.store.bind(Flaky<OrElse>(name: "a").durable.orElse(Gone(name: "a").durable))
            }
            try withRig(folder.file(), [Retyped.self, Gone.self]) { rig in
                guard case .quarantined = try rig.end(id) else {
                    Issue.record("\(try rig.handlers())")
                    return
                }
                #expect(try rig.status(of: id)?.attempts == 0, "it was not run")
                #expect(try failures(rig.store).map(\.attempts) == [0])
            }
            try withRig(folder.file("standing.db"), [Flaky<OrElse>.self, Gone.self]) { rig in
                let standing = try rig.store.step {
                    try $0.bindStanding(Flaky<OrElse>(name: "s").durable.orElse(Gone(name: "s").durable))
                }
                #expect(
                    try rig.store.step { try $0.call(standing, with: Job()) }
                        == .quarantined(reason: "s failed 1"))
                let call = try #require(try rig.handlers(in: .quarantined).first)
                #expect(try failures(rig.store).map(\.handler) == [call.id])
                #expect(try rig.status(of: standing)?.state == .pending)
                #expect(try rig.store.notes() == [])
            }
        }
    }

    @Test("H30 a failure is not reported when its step is given up")
    func undone() throws {
        try withRig([Flaky<Never>.self]) { rig in
            let reports = Reports()
            let runner = try HandlerRunner(rig.store, reports.configuration)
            defer { runner.close() }
            let id = try rig.store.bind(Flaky<Never>(name: "a").durable)
            #expect(throws: Failure.self) {
                try rig.store.step { step in
                    _ = try step.end(id, .result, with: Job())
                    throw Failure()
                }
            }
            #expect(throws: Failure.self) {
                try rig.store.step { step in
                    try step.undoingOnError {
                        _ = try step.end(id, .result, with: Job())
                        throw Failure()
                    }
                }
            }
            #expect(reports.all == [])
            #expect(try failures(rig.store) == [])
        }
    }

    @Test("H30 the runner that serves the scope reports the failure")
    func scopes() throws {
        try withRig([Flaky<Never>.self]) { rig in
            let reports = [Reports(), Reports(), Reports()]
            let runners = try reports.map { try HandlerRunner(rig.store, $0.configuration) }
            defer { for runner in runners { runner.close() } }
            let shops = [Workshop("a"), Workshop("b")]
            for (runner, shop) in zip(runners.dropFirst(), shops) { try runner.attach(shop) }
            rig.runner.close()
            for shop in shops.reversed() {
                let id = try rig.store.bind(Flaky<Never>(name: shop.scope.rawValue).durable)
                try rig.end(id, with: Job(in: shop))
            }
            #expect(reports.map(\.all.count) == [0, 1, 1])
            #expect(reports[2].all.first?.contains("b failed 1") == true)
        }
    }

    @Test("H30 events that nobody consumes make way for newer ones, and a long error is cut")
    func bounded() throws {
        try withRig([Flaky<Never>.self]) { rig in
            let long = String(repeating: "\u{301}", count: 4000)
            for number in 0..<HandlerFailure.kept + 5 {
                let id = try rig.store.bind(Flaky<Never>(name: "\(number)\(long)").durable)
                try rig.end(id)
            }
            let kept = try failures(rig.store)
            #expect(kept.count == HandlerFailure.kept)
            #expect(kept.first?.error.utf8.starts(with: "5\u{301}".utf8) == true)
            #expect(kept.last?.error.utf8.starts(with: "1004".utf8) == true)
            #expect(kept.allSatisfy { $0.error.utf8.count <= 1024 + 3 })
        }
    }

    @Test(
        "H30 X22 a row whose name and scope rotted to more than an event holds is quarantined and reported with their first 1024 bytes",
        .sqliteOnly
    )
    func rotted() throws {
        try withRig([Flaky<Never>.self]) { rig in
            for column in ["name", "scope"] {
                let id = try rig.store.bind(Flaky<Never>(name: "a").durable)
                try rig.store.step { step in
                    // Another name is one of a newer program; what it was called with cannot be read by any.
                    try step.execute(
                        """
                        UPDATE handler SET \(column) = 'x' || replace(hex(zeroblob(40000)), '00', 'ü'),
                            arguments = x'7b' WHERE id = ?
                        """, id)
                }
                if column == "name" {
                    try rig.store.step { try $0.transaction.calls.report(AnyHandlerID(id), "rotted") }
                } else {
                    try rig.end(id)
                    #expect(try rig.status(of: id)?.state == .quarantined)
                }
                let failure = try #require(try failures(rig.store).last)
                let cut = "x" + String(repeating: "ü", count: 511)
                #expect(failure.handler == AnyHandlerID(id))
                #expect((column == "name" ? failure.name : failure.scope?.rawValue) == cut)
            }
        }
    }

    // MARK: Deaths

    @Test(
        "H30 H13 a handler that kills each process in which it runs is not run again, and its invalidation handler runs"
    )
    func kills() throws {
        try withFolder { folder in
            let program = Program(path: folder.file())
            try program.expect(["bind", "kills"], "bound\n")
            for _ in 0..<3 { try program.expect([], "dying\n") }
            try program.expect(
                [], "failed after 3 deaths, invalidated: true\ngone: deadly.kills failed\nidle\n")
            try program.expect([], "idle\n")
        }
    }

    @Test("H30 H13 an invalidation handler that kills each process is quarantined as well")
    func killsTwice() throws {
        try withFolder { folder in
            let program = Program(path: folder.file())
            try program.expect(["bind", "kills-twice"], "bound\n")
            for _ in 0..<3 { try program.expect([], "dying\n") }
            try program.expect([], "failed after 3 deaths, invalidated: true\ndying again\n")
            for _ in 1..<RetryPolicy.standard.deaths { try program.expect([], "dying again\n") }
            try program.expect([], "failed after 5 deaths, invalidated: false\nidle\n")
            try program.expect([], "idle\n")
        }
    }

    @Test("H30 runs in which the process died count as runs, and not as errors", .sqliteOnly)
    func counts() throws {
        try withFolder { folder in
            var id = HandlerID<Job>(rawValue: 0)
            try withRig(folder.file(), [Flaky<Patient>.self]) { rig in
                id = try rig.store.bind(Flaky<Patient>(name: "a").durable)
            }
            for _ in 0..<4 {
                try occupy(folder.file()).record(RunningCall(handler: id.rawValue, digest: 0))
                try withRig(folder.file(), [Flaky<Patient>.self]) { _ in }
            }
            try withRig(folder.file(), [Flaky<Patient>.self]) { rig in
                #expect(try rig.status(of: id)?.attempts == 4)
                try rig.end(id)
                try rig.runner.runDue()
                #expect(try rig.store.keptEnding(of: id)?.reason == .failed)
                #expect(try failures(rig.store).map(\.attempts) == [7])
                #expect(try failures(rig.store).map(\.deaths) == [4])
                #expect(try failures(rig.store).map(\.error) == ["a failed 7"])
            }
        }
    }
}
