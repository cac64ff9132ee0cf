import Foundation
import Handlers
import HandlersTestKit
import TestThreads
import TestSupport
import Testing

@testable import struct Handlers.RunningCall

/// Runs in the main program only.
private struct Heavy: Handler {
    static let id = "test.heavy"
    static let availability = Availability.mainOnly
    var name: String
    func run(_ call: borrowing Call<Job>) throws { try call.step.note("\(name) \(call.word)") }
}

/// The same, later.
private struct HeavyTimer: Handler {
    static let id = "test.heavy-timer"
    static let availability = Availability.mainOnly
    func run(_ call: borrowing Call<TimerFired>) throws { try call.step.note("heavy timer") }
}

private struct Outer: Handler {
    static let id = "test.outer-of-heavy"
    var then: Durable<Job>
    func run(_ call: borrowing Call<Job>) throws { try call.step.run(then, with: call.context) }
}

/// Binds the next one of a chain.
private struct Link: Handler {
    static let id = "test.link"
    var left: Int
    func run(_ call: borrowing Call<Job>) throws {
        if left > 0 { try call.step.bind(Link(left: left - 1).durable) }
    }
}

private struct Login: Handler {
    static let id = "test.login"
    static let retry = RetryPolicy.never
    var user: String
    var password: Secret<String>
    var then: Durable<Job>?
    func run(_ call: borrowing Call<Job>) throws { throw Failure(description: "refused \(password)") }
}

@Suite(.serialized, .ownThread, .engines(.sqlite, .postgres)) struct RepairTests {
    // MARK: Parked

    @Test("H12 what was parked is called, with what arrived, as soon as a program that knows it starts")
    func automatic() throws {
        try withFolder { folder in
            var ids: [HandlerID<Job>] = []
            try withRig(folder.file(), []) { rig in
                ids.append(try rig.store.bind(Say(name: "once").durable))
                guard case .parked = try rig.end(ids[0], with: Job("hello")) else {
                    Issue.record("an unknown handler was called")
                    return
                }
                let standing = try rig.store.step { try $0.bindStanding(Say(name: "standing").durable) }
                try rig.store.step { try $0.call(standing, with: Job("again")) }
                try rig.runner.runDue()
                #expect(try rig.handlers(in: .parked).count == 2)
            }
            try withRig(folder.file(), [Say.self]) { rig in
                #expect(try rig.handlers(in: .parked).isEmpty)
                try rig.runner.runDue()
                #expect(try rig.store.notes().sorted() == ["once hello", "standing again"])
                #expect(try rig.store.keptEnding(of: ids[0])?.outcome == .result)
            }
        }
    }

    @Test("H12 a newer row is requeued by a newer program only")
    func newer() throws {
        try withFolder { folder in
            let newer = Durable<Job>(name: Say.id, version: 2, arguments: Array(#"{"name":"n"}"#.utf8))
            try withRig(folder.file(), [Say.self]) { rig in
                let id = try rig.store.bind(newer)
                try rig.end(id)
                #expect(try rig.handlers(in: .parked).map(\.id) == [AnyHandlerID(id)])
            }
            try withRig(folder.file(), [Say.self]) { rig in
                try rig.runner.runDue()
                #expect(try rig.handlers(in: .parked).count == 1)
            }
        }
    }

    @Test("H13 requeue gives a fresh start with the same call; a row that was not quarantined is refused")
    func requeue() throws {
        try withRig([Flaky<Never>.self, Say.self]) { rig in
            let id = try rig.store.bind(Flaky<Never>(name: "f").durable)
            try rig.end(id, with: Job("call"), overriding: Record(["name": .string("g")]))
            #expect(try rig.status(of: id)?.state == .quarantined)
            try rig.store.step { try $0.requeue(id) }
            #expect(try rig.status(of: id)?.attempts == 0)
            try rig.runner.runDue()
            // The call's own argument was kept with it.
            #expect(try rig.status(of: id)?.reason == "g failed 1")
            let waiting = try rig.store.bind(Say(name: "s").durable)
            let refused = error { try rig.store.step { try $0.requeue(waiting) } }
            #expect(refused?.code == .noSuchHandler && refused?.message.contains("is pending") == true)
            #expect(try rig.store.step { try $0.requeueAll(named: "test.say") } == 0)
            #expect(try rig.store.step { try $0.requeueAll() } == 1)
            #expect(try rig.status(of: waiting)?.dueAt == nil)
        }
    }

    @Test("H13 discard ends a row that nothing can repair; invalidate runs what was bound for that")
    func discard() throws {
        try withRig([Flaky<Never>.self, Gone.self]) { rig in
            let first = try rig.store.bind(Flaky<Never>(name: "1").durable.orElse(Gone(name: "1").durable))
            let second = try rig.store.bind(Flaky<Never>(name: "2").durable.orElse(Gone(name: "2").durable))
            for id in [first, second] { try rig.end(id) }
            try rig.store.step { try $0.discard(first) }
            try rig.invalidate(second, .discarded)
            for id in [first, second] { #expect(try rig.store.keptEnding(of: id)?.reason == .discarded) }
            #expect(try rig.store.notes() == ["2 gone: test.flaky.Never discarded"])
            #expect(code { try rig.store.step { try $0.discard(first) } } == .noSuchHandler)
        }
    }

    // MARK: Deaths

    /// Leaves the word that a handler was running, as a process does that dies while it runs.
    private func die(_ path: String, running handler: HandlerID<Job>, digest: UInt64) throws {
        let slot = try occupy(path)
        slot.record(RunningCall(handler: handler.rawValue, digest: digest))
    }

    @Test(
        "H13 a handler in which too many processes died is not called again, but kept with what arrived",
        .sqliteOnly)
    func deadly() throws {
        try withFolder { folder in
            var id = HandlerID<Job>(rawValue: 0)
            try withRig(folder.file(), [Say.self, Flaky<Standard>.self]) { rig in
                id = try rig.store.bind(Flaky<Standard>(name: "killer", until: 1).durable)
            }
            for _ in 0..<RetryPolicy.standard.deaths {
                try die(folder.file(), running: id, digest: 0)
                try withRig(folder.file(), [Flaky<Standard>.self]) { _ in }
            }
            try withRig(folder.file(), [Flaky<Standard>.self]) { rig in
                #expect(try rig.status(of: id)?.deaths == 5)
                guard case .quarantined(let reason) = try rig.end(id, with: Job("poison")) else {
                    Issue.record("called once more")
                    return
                }
                #expect(reason.contains("5 processes died"))
                #expect(try rig.store.notes() == [])
                #expect(try rig.store.waiting().first?.input == Array("poison".utf8))
                // A person who has found the reason lets it run.
                try rig.store.step { try $0.requeue(id) }
                try rig.runner.runDue()
                #expect(try rig.store.notes() == ["killer poison - 1"])
            }
        }
    }

    /// An async handler that no process ever ends.
    private struct Endless: AsyncHandler {
        static let id = "repair.endless"
        static let retry = RetryPolicy(deaths: 3)
        func run(_ call: AsyncCall<Job>) async throws {}
    }

    @Test(
        "H13 H14 the deaths of processes that had leased an async handler count, and too many keep it back",
        .sqliteOnly)
    func deadlyAsync() throws {
        try withFolder { folder in
            var id = HandlerID<Job>(rawValue: 0)
            try withRig(folder.file(), [Endless.self]) { rig in
                id = try rig.store.bind(Endless().durable)
                #expect(try rig.end(id, with: Job("work")) == .queued)
            }
            for deaths in 1...Endless.retry.deaths {
                do {
                    // A process takes the row, and is gone.
                    let slot = try occupy(folder.file())
                    try withRig(folder.file(), [Endless.self]) { rig in
                        try rig.store.step { step in
                            _ = try step.execute(
                                "UPDATE handler SET state = 3, due = NULL, lease = ? WHERE id = ?",
                                slot.number, id)
                        }
                    }
                }
                try withRig(folder.file(), [Endless.self]) { rig in
                    let status = try rig.status(of: id)
                    #expect(status?.deaths == deaths)
                    #expect(status?.state == .pending)
                }
            }
            try withRig(folder.file(), [Endless.self]) { rig in
                try rig.runner.runDue()
                let status = try rig.status(of: id)
                #expect(status?.state == .quarantined)
                #expect(status?.reason?.contains("3 processes died") == true)
                #expect(try rig.store.waiting().first?.input == Array("work".utf8))
            }
        }
    }

    @Test("H39 deaths count together while no more than an hour lies between them", .sqliteOnly)
    func deathsApart() throws {
        try withFolder { folder in
            let clock = VirtualClock()
            func open(_ body: (Rig) throws -> Void = { _ in }) throws {
                let rig = try Rig(folder.file(), [Endless.self], clock: clock)
                defer { rig.runner.close() }
                try body(rig)
            }
            var id = HandlerID<Job>(rawValue: 0)
            try open { id = try $0.store.bind(Endless().durable) }
            // Each beside the time since the death before it.
            for (minutes, deaths, attempts) in [(0, 1, 1), (59, 2, 2), (61, 1, 1), (1, 2, 2), (600, 1, 1)] {
                clock.advance(by: .seconds(minutes * 60))
                try die(folder.file(), running: id, digest: 0)
                try open { rig in
                    let status = try rig.status(of: id)
                    #expect(status?.deaths == deaths && status?.attempts == attempts, "\(minutes)")
                }
            }
        }
    }

    @Test("H13 of a standing handler only the call that kills is kept back; the others go on", .sqliteOnly)
    func poison() throws {
        try withFolder { folder in
            var id = HandlerID<Job>(rawValue: 0)
            try withRig(folder.file(), [Say.self]) { rig in
                id = try rig.store.step { try $0.bindStanding(Say(name: "s").durable) }
            }
            for _ in 0..<RetryPolicy.never.deaths {
                try die(folder.file(), running: id, digest: Job("poison").callFingerprint)
                try withRig(folder.file(), [Say.self]) { _ in }
            }
            try withRig(folder.file(), [Say.self]) { rig in
                // Each call in a closure of its own, outside of any macro.
                func call(_ word: String) throws -> Disposition {
                    try rig.store.step { try $0.call(id, with: Job(word)) }
                }
                #expect(try call("fine") == .ended)
                guard case .quarantined = try call("poison") else {
                    Issue.record("the call that kills was made")
                    return
                }
                #expect(try call("also fine") == .ended)
                #expect(try rig.store.notes() == ["s fine", "s also fine"])
                #expect(try rig.handlers(in: .quarantined).count == 1)
            }
        }
    }

    // MARK: Availability

    @Test("H17 a worker leaves to the main program what only that may run, with what arrived")
    func mainOnly() throws {
        try withFolder { folder in
            let handlers: [any DurableHandler.Type] = [Heavy.self, HeavyTimer.self, Outer.self]
            try withRig(folder.file(), handlers, role: .worker) { rig in
                let once = try rig.store.bind(Heavy(name: "once").durable)
                #expect(try rig.end(once, with: Job("a")) == .queued)
                let standing = try rig.store.step { try $0.bindStanding(Heavy(name: "standing").durable) }
                #expect(try rig.store.step { try $0.call(standing, with: Job("b")) } == .queued)
                let outer = try rig.store.bind(Outer(then: Heavy(name: "nested").durable).durable)
                #expect(try rig.end(outer, with: Job("c")) == .ended)
                try rig.store.step { try $0.schedule(HeavyTimer().durable, after: .zero) }
                // Nothing for a worker to do, and so nothing to come back for.
                #expect(try rig.runner.runDue() == nil)
                #expect(try rig.store.notes() == [])
            }
            try withRig(folder.file(), handlers) { rig in
                try rig.runner.runDue()
                #expect(
                    try rig.store.notes().sorted() == ["heavy timer", "nested c", "once a", "standing b"])
                #expect(try rig.handlers().map(\.isStanding) == [true])
            }
        }
    }

    // MARK: Tombstones

    @Test("H19 endings carry the root of their chain, also over retries")
    func trace() throws {
        try withRig([Link.self, Flaky<AtOnce>.self]) { rig in
            let root = try rig.store.bind(Link(left: 3).durable)
            var next: HandlerID<Job>? = root
            while let id = next {
                try rig.end(id)
                #expect(try rig.store.keptEnding(of: id)?.trace == AnyHandlerID(root))
                next = try rig.handlers().first.map { HandlerID(rawValue: $0.id.rawValue) }
            }
            let other = try rig.store.bind(Flaky<AtOnce>(name: "f", until: 3).durable)
            try rig.end(other)
            for _ in 0..<3 { try rig.runner.runDue() }
            #expect(try rig.store.keptEnding(of: other)?.trace == AnyHandlerID(other))
        }
    }

    @Test("H19 endings are forgotten after their time, in short steps, and not before")
    func pruned() throws {
        try withFolder { folder in
            try withRig(folder.file(), [Say.self]) { rig in
                let runner = try HandlerRunner(rig.store, .init(keepEndings: .seconds(3600)))
                defer { runner.close() }
                try rig.store.step { step in
                    for n in 0..<1200 {
                        try step.end(step.bind(Say(name: "o").durable, key: "o\(n)"), .result, with: Job())
                    }
                }
                rig.clock.advance(by: .seconds(3000))
                let young = try rig.store.step { try $0.bind(Say(name: "y").durable, key: "y") }
                try rig.end(young)
                for _ in 0..<5 {
                    try runner.runDue()
                    rig.clock.advance(by: .seconds(61))
                }
                #expect(try rig.store.integer("SELECT count(*) FROM ending") == 1201)
                rig.clock.advance(by: .seconds(600))
                for _ in 0..<5 {
                    try runner.runDue()
                    rig.clock.advance(by: .seconds(61))
                }
                #expect(try rig.store.integer("SELECT count(*) FROM ending") == 1)
                #expect(try rig.store.integer("SELECT count(*) FROM ending_detail") == 1)
                #expect(try rig.store.read { try $0.ending(ofKey: "y") }?.handler == AnyHandlerID(young))
            }
        }
    }

    // MARK: Secrets

    @Test("H20 no description shows a secret, however deep it stands, and an error does not either")
    func secrets() throws {
        try withRig([Login.self]) { rig in
            let inner = try Login(user: "inner", password: Secret("hush-inner")).durable
            let durable = try Login(user: "ada", password: Secret("hush-outer"), then: inner).durable
            let id = try rig.store.bind(durable)
            try rig.end(id)
            let status = try #require(try rig.status(of: id))
            for text in [
                "\(durable)", "\(status)", status.arguments, status.reason ?? "", "\(Secret("hush"))",
            ] {
                #expect(!text.contains("hush"), "\(text)")
            }
            #expect(status.arguments.contains("ada") && status.arguments.contains("inner"))
            #expect(status.reason == "refused <secret>")
            var dumped = ""
            dump(Secret("hush"), to: &dumped)
            #expect(!dumped.contains("hush"))
        }
    }
}
